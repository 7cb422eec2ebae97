"""`fedforest reproduce`: the tables and figures of the papers, measured again."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedforest.cli.terminal import AsJson, Terminal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fedforest.experiments.experiment import Experiment, Setting


def reproduce(  # noqa: PLR0913, PLR0917 - options of a command
    names: Annotated[list[str], typer.Argument(help="Names of experiments, `all` or `list`.")],
    output: Annotated[
        Path | None,
        typer.Option(help="Folder of repetitions, pages and figures, by default `results`."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small versions, minutes in all; no results.")
    ] = False,
    synthetic: Annotated[
        bool, typer.Option("--synthetic", help="Made tables of the same shapes; no results.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Forget earlier repetitions of these experiments.")
    ] = False,
    minutes: Annotated[
        float | None, typer.Option(help="Begin no repetition later than this; go on another time.")
    ] = None,
    repetitions: Annotated[
        int | None, typer.Option(min=1, help="At most so many of each measurement.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Threads of each training, by default one per core.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of divisions of rows and columns.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Repeat tables and figures of the papers, each beside the printed values.

    Repetitions are stored as they come: a run that was stopped goes on where it ended. The output
    folder gets one page of all results, and of each experiment its figure, tables and repetitions.

    Example: fedforest reproduce list

    Example: fedforest reproduce kppd-table-1 --quick
    """
    from fedforest.experiments.experiment import Setting
    from fedforest.experiments.page import write_pages
    from fedforest.experiments.registry import EXPERIMENTS, choose

    terminal = Terminal(as_json)
    if names == ["list"]:
        _list(terminal, EXPERIMENTS.values())
        return
    chosen = choose(names)
    _check_needs(chosen, synthetic=synthetic)
    parts = ["results", *(["quick"] if quick else []), *(["made"] if synthetic else [])]
    folder = output or Path("-".join(parts))
    deadline = None if minutes is None else time.monotonic() + 60.0 * minutes
    n_jobs = jobs or os.cpu_count() or 1
    setting = Setting(seed, quick, synthetic, n_jobs, again, deadline, repetitions)
    failed = _measure(terminal, chosen, setting, folder)
    write_pages(EXPERIMENTS.values(), setting, folder)
    page = folder / "index.html"
    if as_json:
        results = {
            experiment.name: str(folder / f"{experiment.name}.json") for experiment in chosen
        }
        terminal.show_json({"page": str(page), "results": results, "failed": failed})
    else:
        if quick or synthetic:
            typer.echo("Small versions and made tables show that all works; they judge nothing.")
        typer.echo(f"The page of all results is {page}.")
    if failed:
        typer.echo(f"fedforest: {len(failed)} failed: {', '.join(failed)}; see above", err=True)
        raise typer.Exit(1)


def _measure(
    terminal: Terminal, chosen: list[Experiment], setting: Setting, folder: Path
) -> list[str]:
    """Measure and tell one experiment after the other; return the names of those that failed."""
    from fedforest.experiments.page import make_section, write_section
    from fedforest.experiments.runner import measure

    failed = []
    for experiment in chosen:
        terminal.say(f"{experiment.name}: {experiment.source}. Full run: {experiment.full_run}.")
        try:
            record = measure(experiment, setting, folder, terminal.err)
        except Exception as error:
            if len(chosen) == 1:
                raise
            failed.append(experiment.name)
            typer.echo(f"{experiment.name} failed; its repetitions are kept. {error}", err=True)
            continue
        if record.measured:
            section = make_section(experiment, record)
            write_section(section, folder)
            if not terminal.as_json:
                _show(terminal, section.findings())
    return failed


def _list(terminal: Terminal, experiments: Iterable[Experiment]) -> None:
    for experiment in experiments:
        told = {
            "name": experiment.name,
            "source": experiment.source,
            "title": experiment.title,
            "full_run": experiment.full_run,
        }
        if terminal.as_json:
            terminal.show_json(told)
        else:
            typer.echo("{name:14} {source}: {title} ({full_run})".format(**told))


def _show(terminal: Terminal, findings: list[Any]) -> None:
    from fedforest.experiments.findings import to_rich

    for finding in findings:
        terminal.out.print(to_rich(finding))


def _check_needs(chosen: list[Experiment], *, synthetic: bool) -> None:
    """Say what is missing before anything is measured."""
    from fedforest.errors import ConfigurationError
    from fedforest.experiments.data.reading import reason_missing
    from fedforest.experiments.figures import check_matplotlib
    from fedforest.extras import import_extra

    check_matplotlib()
    for library in {library for experiment in chosen for library in experiment.extras}:
        import_extra(library, "this experiment")
    wanted = dict.fromkeys(name for experiment in chosen for name in experiment.data)
    missing = [] if synthetic else [why for name in wanted if (why := reason_missing(name))]
    for why in missing:
        typer.echo(why, err=True)
    if missing:
        raise ConfigurationError(f"{len(missing)} data set(s) are missing: see above")
