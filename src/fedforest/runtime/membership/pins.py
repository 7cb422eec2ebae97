"""Pins: fingerprints of parties and users, confirmed by other means than the federation."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import msgspec

from fedforest.errors import ConfigurationError
from fedforest.masking.key_agreement import is_fingerprint
from fedforest.runtime.membership.homes import PARTY_FILE
from fedforest.runtime.recovery.run_store import write_file


class Pins(Mapping[str, str]):
    """Fingerprints of other parties, from the settings and from `trust`.

    The file is read at every access, so that a running party uses a change at once.
    """

    kind: ClassVar[str] = "party"
    file_name: ClassVar[str] = "pins.json"
    shown_by: ClassVar[str] = "`fedforest party identity` prints at the other party"

    def __init__(self, home: Path, settings: Mapping[str, str]) -> None:
        self._path = home / self.file_name
        self._peers_path = home / "peers.json"
        self._settings = settings

    def __getitem__(self, name: str) -> str:
        return self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def trust(self, name: str, pin: str, *, replace: bool = False) -> None:
        """Pin a party by this fingerprint."""
        text = pin.strip().lower()
        if not is_fingerprint(text):
            raise ConfigurationError(f"this is no fingerprint; copy what {self.shown_by}")
        others = [other for other, pin in self._read().items() if pin == text and other != name]
        if others:
            raise ConfigurationError(
                f"this is the fingerprint by which {others[0]!r} is pinned; everybody has another "
                "one, so one of the two names is wrong: `fedforest party distrust` removes a pin"
            )
        known = self._read().get(name, text)
        if known != text and not replace:
            raise ConfigurationError(
                f"{self.kind} {name!r} is pinned by another fingerprint: somebody may sit in "
                "between. If its holder confirms the new one by other means, add --replace"
            )
        if name in self._settings and known != text:
            raise ConfigurationError(
                f"{self.kind} {name!r} is pinned in {PARTY_FILE}; change it there"
            )
        self._write_file({**self._read_file(), name: text})

    def distrust(self, name: str) -> None:
        """Remove a party's pin: runs that need it are refused from now on."""
        if name in self._settings:
            raise ConfigurationError(
                f"{self.kind} {name!r} is pinned in {PARTY_FILE}; remove it there"
            )
        trusted = self._read_file()
        if name not in trusted:
            pinned = ", ".join(sorted(self)) or "nobody"
            raise ConfigurationError(f"no fingerprint of {name!r} is pinned here; pinned: {pinned}")
        del trusted[name]
        self._write_file(trusted)

    def note_peers(self, names: Collection[str]) -> None:
        """Store the names of parties that a run asked this one to work with."""
        known = self.peers()
        if not known.issuperset(names):
            write_file(self._peers_path, msgspec.json.encode(sorted(known.union(names))))

    def peers(self) -> set[str]:
        """Return the parties that runs have named so far."""
        if not self._peers_path.exists():
            return set()
        return msgspec.json.decode(self._peers_path.read_bytes(), type=set[str])

    def _write_file(self, trusted: Mapping[str, str]) -> None:
        write_file(self._path, msgspec.json.format(msgspec.json.encode(trusted)))

    def _read(self) -> dict[str, str]:
        return {**self._read_file(), **self._settings}

    def _read_file(self) -> dict[str, str]:
        if not self._path.exists():
            return {}
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, str])
        except msgspec.DecodeError:
            raise ConfigurationError(f"{self._path} is damaged; pin everybody again") from None


class UserPins(Pins):
    """Fingerprints of the keys with which users sign what they ask for."""

    kind = "user"
    file_name = "user_pins.json"
    shown_by = "`fedforest identity` prints at the user's machine"

    def __init__(self, home: Path) -> None:
        super().__init__(home, {})
