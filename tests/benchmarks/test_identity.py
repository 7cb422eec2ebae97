"""Forests equal, byte for byte, those that the recorded commit trained from the same tables."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.identity import (
    RECORDED,
    TRAININGS,
    Training,
    find_differences,
    horizontal,
    main,
    vertical,
)

EXACT = [name for name, training in TRAININGS.items() if training.is_exact]


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    trainings: dict[str, Any] = json.loads(RECORDED.read_text())["trainings"]
    return trainings


# Noise and linear models are left out: their last bits depend on the machine's C library and BLAS.
@pytest.mark.parametrize("name", EXACT)
def test_a_training_gives_the_recorded_model_predictions_and_traffic(
    recorded: dict[str, Any], name: str
) -> None:
    assert TRAININGS[name].take_fingerprint() == recorded[name]


def test_all_trainings_are_recorded(recorded: dict[str, Any]) -> None:
    assert list(recorded) == list(TRAININGS)
    assert len({fingerprint["model"] for fingerprint in recorded.values()}) == len(TRAININGS)


@pytest.mark.parametrize("name", [name for name in TRAININGS if name not in EXACT])
def test_a_training_repeats_itself_although_it_is_noisy(name: str) -> None:
    training = TRAININGS[name]
    assert training.take_fingerprint() == training.take_fingerprint()


@pytest.mark.parametrize("train", [vertical(random_state=1), horizontal(random_state=1)])
def test_another_seed_is_found_to_differ(recorded: dict[str, Any], train: Any) -> None:
    other = Training("vertical: two classes", train).take_fingerprint()
    found = find_differences(recorded, {"vertical: two classes": other})
    assert found.startswith("vertical: two classes: model, predictions, attributes")


def test_the_script_fails_naming_the_training_that_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "horizontal: two classes"
    path = tmp_path / "record.json"
    assert main(["--only", name, "--write", str(path)]) == 0
    assert main(["--only", name, "--against", str(path)]) == 0
    record = json.loads(path.read_text())
    record["trainings"][name]["predictions"] = "another"
    path.write_text(json.dumps(record))
    assert main(["--only", name, "--against", str(path)]) == 1
    assert f"{name}: predictions" in capsys.readouterr().err
