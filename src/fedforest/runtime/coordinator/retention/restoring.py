"""A coordinator's folder from a copy: runs that were under way end, and parties are told so.

What the copy forgets: members and roles since (they join anew), runs since (parties keep their
models, and nobody asks for them), withdrawals since (parties keep them), and revocations since
(parties name them). Until all parties have said whom they know to be revoked, no user is let in.
"""

from pathlib import Path

from fedforest.runtime.coordinator.end_notices import OwedEnds
from fedforest.runtime.coordinator.history import History
from fedforest.runtime.messages.orders import AnyRun
from fedforest.runtime.messages.signed_orders import read_submission
from fedforest.runtime.recovery.backup import Restored, restore_backup
from fedforest.runtime.recovery.run_store import RunStore
from fedforest.transport.in_process import InProcess


def restore_coordinator(archive: Path, home: Path) -> Restored:
    """Make a coordinator's folder out of a copy; no service may run with another one of it."""
    manifest, restored = restore_backup(archive, home, "coordinator")
    store, history = RunStore(home), History(home / "history.sqlite")
    nobody = InProcess({})
    ends = OwedEnds(store, nobody)
    reason = (
        f"it was under way when the copy was made ({restored.moment}) from which this coordinator "
        "was restored; order it anew"
    )
    for text, description in manifest.descriptions.items():
        run, order = bytes.fromhex(text), read_submission(description).order
        if not isinstance(order, AnyRun):
            continue
        if not history.has(run):
            history.begin(run, order, "unknown")
        history.note_state(run, "cancelled", reason)
        ends.note(run, order.data.keys(), None, None)
    history.close()
    return restored
