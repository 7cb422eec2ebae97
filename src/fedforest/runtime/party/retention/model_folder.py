"""The models in a party's folder for its owner's commands: list, withdraw and delete them.

A running party is not needed, and goes by a withdrawal from its next request on.
"""

from pathlib import Path
from typing import Any

import msgspec

from fedforest.errors import ConfigurationError
from fedforest.runtime.membership.homes import load_credentials
from fedforest.runtime.recovery.model_folder import StoredModels, Withdrawal
from fedforest.runtime.recovery.run_store import RunStore
from fedforest.runtime.trainings.origins import Origins

_ORIGINS = "origins"


class OwnModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model of this party: what went into it here, its files, and its withdrawal."""

    model: str
    data: list[str]  # its data sets
    runs: list[str]  # the trainings that it went through
    files: list[str]
    continued_by: list[str] = []  # later models that contain its trees
    withdrawal: Withdrawal | None = None

    def to_json(self) -> dict[str, Any]:
        """Describe it for programs."""
        described: dict[str, Any] = msgspec.to_builtins(self)
        state = "usable" if self.withdrawal is None else "withdrawn"
        return {**described, "state": state if self.files or state == "usable" else "deleted"}


class PartyModelFolder:
    """The models in the folder of a party."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._folder = home / "models"
        self._files = StoredModels(self._folder)

    def list(self) -> list[OwnModel]:
        """List all models by id, withdrawn and deleted ones among them."""
        origins = {model: self.origins(model) for model in self._files.list()}
        return [self._describe(model, origins) for model in origins]

    def find(self, text: str) -> OwnModel:
        """Return the model whose id begins so; raises `ConfigurationError` if it is not one."""
        found = [model for model in self.list() if text and model.model.startswith(text.lower())]
        if len(found) == 1:
            return found[0]
        many = "several models begin" if found else "no model of this party begins"
        raise ConfigurationError(f"{many} with {text!r}; see: fedforest party models list")

    def withdraw(self, model: str) -> OwnModel:
        """Withdraw a model for good."""
        self._files.withdraw(model, self._owner())
        return self.find(model)

    def delete(self, model: str) -> OwnModel:
        """Delete the files of a model and of its run; the run's id stays taken."""
        self._files.delete(model, self._owner())
        store, run = RunStore(self._home), bytes.fromhex(model)
        if store.is_finished(run):
            store.empty(run)
        return self.find(model)

    def _owner(self) -> str:
        return f"party {load_credentials(self._home).identity.name}"

    def origins(self, model: str) -> Origins:
        """Read what went into a model; nothing of a deleted one, or if its file is damaged."""
        try:
            data = (self._folder / f"{model}.{_ORIGINS}").read_bytes()
            return msgspec.json.decode(data, type=Origins)
        except (FileNotFoundError, msgspec.DecodeError):
            return ()

    def _describe(self, model: str, origins: dict[str, Origins]) -> OwnModel:
        own = origins[model]
        files = [path.name for path in self._folder.glob(f"{model}.*")]
        withdrawal = self._files.withdrawal(model)
        return OwnModel(
            model=model,
            data=sorted({origin.data for origin in own}),
            runs=[origin.run for origin in own],
            files=sorted(name for name in files if not name.endswith(".withdrawn")),
            continued_by=[
                other
                for other, ones in origins.items()
                if other != model and any(origin.run == model for origin in ones)
            ],
            withdrawal=withdrawal,
        )
