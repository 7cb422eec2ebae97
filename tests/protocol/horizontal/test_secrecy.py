"""What no transcript of a horizontal training shows: values, targets, weights, and secrets.

Names of columns, categories and classes are declared, so everybody may know them. Thresholds
travel, but they are random points between values.
"""

import struct
from functools import cache
from typing import Any

import numpy as np
import pytest

from fedforest.privacy.global_dp import GlobalDP
from fedforest.privacy.local_dp import LocalDP
from fedforest.protocol.aggregation.options import Masked, Ring, Shamir
from fedforest.protocol.aggregation.plugs import Plug
from fedforest.protocol.horizontal.order import Participation
from tests.protocol.horizontal.federations import (
    PER_STEP,
    Losing,
    OpenTraining,
    Shares,
    train_openly,
)
from tests.protocol.horizontal.test_single_rows import PaperParty
from tests.protocol.transcripts import Recorder

N_ROWS = 80
BOUNDED = GlobalDP(epsilon_query=2.0, target_bounds=(0.0, 9000.0))
MODES: dict[str, tuple[str, Plug, dict[str, Any]]] = {
    "plain": ("classes", "plain", {}),
    "bootstrap": ("classes", "plain", {"bootstrap": True}),
    "weights": ("weights", "plain", {}),
    "targets": ("targets", "plain", {"min_samples_leaf": 2}),  # a leaf of one row tells its target
    "masked": ("classes", Masked(), {}),
    # another seed where masked words look like a planted number: of 100 transcripts one has such
    "masked targets": ("targets", Masked(k=1), {"min_samples_leaf": 2, "seed": 1}),
    "ring": ("weights", Ring(), {}),
    "shamir": ("classes", Shamir(threshold=3), {}),
    "some parties": ("classes", Masked(), {"participation": Participation(0.5, "tree", 2)}),
    "steps": ("classes", Masked(), {"participation": PER_STEP, "class_weight": "balanced"}),
    "local noise": ("classes", "plain", {"privacy": LocalDP(keep=0.9), "max_depth": 4}),
    "noise": ("classes", Masked(), {"privacy": GlobalDP(epsilon_query=2.0), "max_depth": 4}),
    "noisy targets": ("targets", "plain", {"privacy": BOUNDED, "max_depth": 4}),
    "lost": ("classes", Masked(), {"wrap": lambda inner: Losing(inner, "p2", 9)}),
}


@cache
def planted_shares(kind: str) -> Shares:
    """Numbers that nothing else has; the words and names are declared."""
    rng = np.random.default_rng(5)
    numbers = 1234.5 + rng.permutation(N_ROWS * 4).reshape(4, N_ROWS) * np.pi
    gaps = np.where(rng.random(N_ROWS) < 0.2, np.nan, numbers[3])
    X = {
        "salary": numbers[0],
        "height": numbers[1] * 1e-3,
        "debts": -numbers[2] * 1e3,
        "gaps": gaps,
        "illness": rng.choice(["flu", "cold", "none"], N_ROWS),
    }
    y: Any = (numbers[0] + numbers[2] > 2 * numbers.mean()).astype(np.int64)
    if kind == "targets":
        y = (1 + rng.permutation(N_ROWS)) * np.e + 4321.25
    weights: Any = 1.0 + rng.permutation(N_ROWS) * 0.0123457 if kind == "weights" else None
    return Shares(X, y, np.arange(N_ROWS) % 4, weights)


def encodings(value: float) -> set[bytes]:
    """The forms in which a number could be written."""
    texts = {repr(float(value)), f"{value:.6g}", f"{value:.3f}", f"{value:.10g}"}
    forms = {text.encode() for text in texts if len(text) >= 6}
    # not ">f": four bytes of two neighbouring thresholds look like it now and then
    return forms | {struct.pack(form, value) for form in ("<d", ">d", "<f")}


def secrets_of(shares: Shares) -> set[bytes]:
    """Every planted number in every form."""
    values = [value for column in shares.X.values() for value in np.unique(column).tolist()]
    if shares.y.dtype.kind == "f":
        values += shares.y.tolist()
    if shares.weights is not None:
        values += [weight for weight in shares.weights.tolist() if weight != 1.0]
    numbers = [value for value in values if isinstance(value, float) and not np.isnan(value)]
    assert len(numbers) >= 3 * N_ROWS
    return {form for number in numbers for form in encodings(number)}


def find_planted(shares: Shares, recorder: Recorder) -> list[bytes]:
    """Every planted number that somebody sent."""
    transcript = recorder.everything()
    assert len(transcript) > 2000
    return [secret for secret in secrets_of(shares) if secret in transcript]


@cache
def train_mode(mode: str) -> OpenTraining:
    kind, plug, settings = MODES[mode]
    return train_openly(planted_shares(kind), plug, n_estimators=3, **settings)


@pytest.mark.parametrize("mode", MODES)
def test_no_value_target_or_weight_is_sent(mode: str) -> None:
    assert find_planted(planted_shares(MODES[mode][0]), train_mode(mode).recorder) == []


@pytest.mark.parametrize("mode", MODES)
def test_no_secret_of_a_party_is_sent(mode: str) -> None:
    training = train_mode(mode)
    transcript = training.recorder.everything()
    for party in training.parties.values():
        secrets = [party._point_secret, party._row_secret, party._noise_secret, party._response_key]
        assert all(len(secret) == 32 for secret in secrets)
        assert not [secret for secret in secrets if secret[:8] in transcript]


def test_the_search_finds_values_of_parties_that_name_points_of_single_rows() -> None:
    shares = planted_shares("classes")
    numbers = {name: column for name, column in shares.X.items() if name not in ("gaps", "illness")}
    numeric = Shares(numbers, shares.y, shares.owner)
    training = train_openly(numeric, n_estimators=3, party_options={"make_party": PaperParty})
    assert len(find_planted(numeric, training.recorder)) > 10


@pytest.mark.parametrize("kind", ["classes", "targets", "weights"])
def test_the_search_would_find_a_number_that_slipped_into_a_message(kind: str) -> None:
    shares = planted_shares(kind)
    number = {"classes": shares.X["salary"], "targets": shares.y, "weights": shares.weights}[kind]
    for form in encodings(float(number[7])):
        recorder = Recorder(None)  # type: ignore[arg-type] # nothing is carried
        recorder.replies.append({"p0": bytes(3000) + form})
        assert find_planted(shares, recorder)
