"""`fedforest export`: a model in a file that other programs read.

A horizontal model is everybody's. A vertical one is put together only where every party's policy
allows it, and then predicts without them.
"""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotations
from typing import TYPE_CHECKING, Annotated

import typer

from fedforest.cli.terminal import AsJson, Profile, Quiet, Terminal

if TYPE_CHECKING:
    from fedforest.runtime.client.connection import Federation
    from fedforest.runtime.messages.results import RunDetails

_FORMATS = ("fedforest", "onnx", "skops")


def export(  # noqa: PLR0913, PLR0917 - options of a command
    model: Annotated[str, typer.Argument(help="A finished run: name, id or first digits.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")],
    form: Annotated[
        str, typer.Option("--format", "-f", help="fedforest, onnx or skops.")
    ] = "fedforest",
    profile: Profile = "",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Write the model of a run to a file.

    The format fedforest holds any model, is safe to open whoever made it, and serves `fedforest
    predict`. ONNX and skops take horizontal models of numeric columns.

    Example: fedforest export 4f2a --out forest.model

    Example: fedforest export 4f2a --format onnx --out forest.onnx
    """
    from fedforest.cli.runs import find_model
    from fedforest.errors import ConfigurationError
    from fedforest.runtime.client.connection import Federation
    from fedforest.runtime.membership.profiles import choose_profile
    from fedforest.runtime.messages.orders import ShowRun
    from fedforest.runtime.messages.results import RunDetails

    if form not in _FORMATS:
        raise typer.BadParameter(f"it is one of {', '.join(_FORMATS)}", param_hint="--format")
    if not out.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {out.parent}", param_hint="--out")
    terminal = Terminal(as_json, quiet)
    with Federation(choose_profile(profile)) as federation:
        run = find_model(federation, model).run
        details = federation.ask(ShowRun(run=run), RunDetails)
        if details.state.protocol == "vertical":
            _export_vertical(federation, run, form, out)
        elif details.state.protocol != "horizontal":
            raise ConfigurationError(
                f"a {details.state.protocol} run has no model that leaves its parties as a whole; "
                "forests are exported"
            )
        else:
            _export_horizontal(federation, details, form, out)
    if as_json:
        terminal.show_json({"model": run, "format": form, "file": str(out)})
    else:
        terminal.say(f"the model of run {run[:12]} is in {out}")


def _export_vertical(federation: Federation, run: str, form: str, out: Path) -> None:
    from fedforest.errors import ConfigurationError
    from fedforest.runtime.messages.orders import CompleteModel
    from fedforest.runtime.messages.results import ModelFile

    if form != "fedforest":
        raise ConfigurationError(
            f"a vertical forest is exported in the format fedforest, not as {form}: its cuts are "
            "bins, which other programs do not have"
        )
    out.write_bytes(federation.ask(CompleteModel(model=run), ModelFile).file)


def _export_horizontal(federation: Federation, details: RunDetails, form: str, out: Path) -> None:
    from fedforest.estimators.model_exports import export_horizontal, rebuild_horizontal
    from fedforest.runtime.messages.orders import WatchRun
    from fedforest.runtime.messages.results import HorizontalResult

    result = federation.ask(WatchRun(run=details.state.run), HorizontalResult)
    export_horizontal(rebuild_horizontal(details.order, result.file), form, out)
