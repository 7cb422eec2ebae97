"""Counts the functions and files of the package that a reader passes on five walks.

    python benchmarks/walks.py [--list] [--only WALK ...] [--write FILE --as KEY]

PYTHONPATH=<checkout>/src chooses the code. A walk is recorded while it happens, with kernels
compiled and after the same work was done once, so that neither imports nor first uses count:

- vertical level: from a question `FindSplits` to the next one, parties' work included
- horizontal level: the same from `ProposeThresholds`, with masked counts
- masked count: from a question `CountMasked` to the question after it
- vertical prediction: `predict` of 200 rows
- train run.toml: the command in a live federation, from its start to its end: what the client, the
  coordinator and the first party pass, and all of them together

Python 3.11 is needed: later versions do not tell a profiler of compiled kernels.

The first four run in one process on one thread. Functions are Python's, and kernels where Python
calls them; kernels called by kernels are not seen (`walk_recorder.py`). `results/walks.json` keeps
the figures of stated commits.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script

import numpy as np

import fedforest
from benchmarks.checkout import import_own, read_commit
from benchmarks.measure import ROOT
from benchmarks.tasks import SEED, Split, make_split
from benchmarks.walk_recorder import SEES_KERNELS, Call, Recorder

RECORDED = ROOT / "benchmarks" / "results" / "walks.json"
N_ROWS, N_TREES, MAX_DEPTH = 2_000, 4, 6
N_PREDICTED = 200
LEVEL = 2  # the third: neither the first nor the last of a tree
COMMAND_SECONDS = 300.0
RUN_FILE = f"""
protocol = "vertical"
task = "classification"
seed = {SEED}

[parties]
bank = "training"
shop = "training"

[label]
column = "label"

[parameters]
n_estimators = {N_TREES}
max_depth = {MAX_DEPTH}
"""
_HOOK = """
import sys
from pathlib import Path
sys.path.append({root!r})
from benchmarks.walk_recorder import record_process
record_process(Path({folder!r}))
"""

Walk = list[Call]


def record(work: Callable[[], object]) -> Recorder:
    """Do the work twice and record the second time."""
    work()
    recorder = Recorder()
    with recorder.recording():
        work()
    return recorder


def between(recorder: Recorder, first: str, last: str | None = None) -> Walk:
    """Calls from a question of one name to the next of the other name, or of any."""
    questions = recorder.questions
    places = [place for place, question in enumerate(questions) if question.request == first]
    place = places[LEVEL]
    after = (q.n_calls for q in questions[place + 1 :] if last is None or q.request == last)
    return recorder.calls[questions[place].n_calls : next(after)]


def _fit_vertical(split: Split) -> Any:
    forest = fedforest.VerticalForestClassifier(
        n_estimators=N_TREES, max_depth=MAX_DEPTH, parties=2, n_jobs=1, random_state=SEED
    )
    return forest.fit(split.X_train, split.y_train)


def _fit_horizontal(split: Split) -> Any:
    forest = fedforest.HorizontalExtraTreesClassifier(
        n_estimators=N_TREES,
        max_depth=MAX_DEPTH,
        aggregation=fedforest.Masked(),
        n_jobs=1,
        random_state=SEED,
    )
    return forest.fit(split.X_train, split.y_train, party=np.arange(len(split.X_train)) % 3)


def walk_vertical_level(split: Split) -> dict[str, Walk]:
    recorder = record(lambda: _fit_vertical(split))
    return {"": between(recorder, "FindSplits", "FindSplits")}


def walk_horizontal_level(split: Split) -> dict[str, Walk]:
    recorder = record(lambda: _fit_horizontal(split))
    return {"": between(recorder, "ProposeThresholds", "ProposeThresholds")}


def walk_masked_count(split: Split) -> dict[str, Walk]:
    return {"": between(record(lambda: _fit_horizontal(split)), "CountMasked")}


def walk_prediction(split: Split) -> dict[str, Walk]:
    forest = _fit_vertical(split)
    return {"": record(lambda: forest.predict(split.X_test[:N_PREDICTED])).calls}


def walk_train_command(split: Split) -> dict[str, Walk]:
    """By role: what each process passes while the command runs, and all of them together."""
    live = import_own("benchmarks.live_federation")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "run.toml").write_text(RUN_FILE)
        (folder / "walks").mkdir()
        with recorded_processes(folder), live.LiveFederation(folder, live.divide_columns(split)):
            for _ in range(2):  # the first one loads modules and kernels
                begin = time.monotonic()
                _run_command(folder)
                end = time.monotonic()
        processes = [json.loads(path.read_text()) for path in (folder / "walks").glob("*.json")]
    walks: dict[str, Walk] = {"client": [], "coordinator": [], "party": []}
    together: Walk = []
    for process in processes:
        calls = [Call(*call) for call in process["calls"] if begin <= call[0] <= end]
        role = process["arguments"][0]
        together += calls
        if role in walks and not any("shop" in word for word in process["arguments"]):
            walks[role] += calls
        elif role == "train":
            walks["client"] += calls
    return {**walks, "all roles": sorted(together)}


@contextmanager
def recorded_processes(folder: Path) -> Iterator[None]:
    """Have every Python process that starts in here record itself into `walks`."""
    hook = _HOOK.format(root=str(ROOT), folder=str(folder / "walks"))
    (folder / "sitecustomize.py").write_text(hook)  # Python imports it before anything else
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), before]))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def _run_command(folder: Path) -> None:
    words = ["train", str(folder / "run.toml"), "--watch", "--profile", str(folder / "user")]
    outcome = subprocess.run(
        [sys.executable, "-m", "fedforest", *words],
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    if outcome.returncode != 0:
        raise RuntimeError(f"`fedforest train` failed:\n{outcome.stderr}")


WALKS: Mapping[str, Callable[[Split], dict[str, Walk]]] = {
    "vertical level": walk_vertical_level,
    "horizontal level": walk_horizontal_level,
    "masked count": walk_masked_count,
    "vertical prediction": walk_prediction,
    "train run.toml": walk_train_command,
}


def count(walk: Walk) -> dict[str, Any]:
    """Distinct functions and files; functions by the package's top folders; all calls."""
    passed = {(call.file, call.function) for call in walk}
    layers = Counter(file.split("/")[0] if "/" in file else "(top)" for file, _ in passed)
    return {
        "functions": len(passed),
        "files": len({file for file, _ in passed}),
        "calls": len(walk),
        "functions_by_layer": dict(sorted(layers.items())),
    }


def list_passed(walk: Walk) -> Iterator[str]:
    """Every function in the order in which it is first passed, with how often it is."""
    for (file, function), n_calls in Counter((call.file, call.function) for call in walk).items():
        yield f"{n_calls:7d}  {file}  {function}"


def main(arguments: Sequence[str]) -> None:
    """Walk, print, and keep the figures where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="WALK", choices=WALKS, default=list(WALKS))
    parser.add_argument("--list", action="store_true", help="print every function in order")
    parser.add_argument("--write", type=Path, metavar="FILE", help="keep the figures here")
    parser.add_argument("--as", dest="key", metavar="KEY", default="after", help="under this key")
    chosen = parser.parse_args(arguments)
    if not SEES_KERNELS:
        raise SystemExit(
            "walks.py counts kernels, too, which needs Python 3.11: see its first lines"
        )
    split = make_split("binary", N_ROWS)
    figures = {}
    print(f"{'walk':30s} functions  files    calls")
    for name in chosen.only:
        for role, walk in WALKS[name](split).items():
            title = f"{name}: {role}" if role else name
            figures[title] = figure = count(walk)
            print(f"{title:30s} {figure['functions']:9d} {figure['files']:6d} {figure['calls']:8d}")
            if chosen.list:
                print("\n".join(list_passed(walk)))
    if chosen.write is not None:
        kept = json.loads(chosen.write.read_text()) if chosen.write.exists() else {}
        kept[chosen.key] = {"commit": read_commit(), "walks": figures}
        chosen.write.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
