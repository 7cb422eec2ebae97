"""Run files become the orders that estimators give, and are refused as estimators refuse."""

from pathlib import Path

import pytest

from fedforest.errors import ConfigurationError
from fedforest.estimators.horizontal import federation as federated_horizontal
from fedforest.estimators.horizontal import options as horizontal_options
from fedforest.estimators.horizontal.forests import HorizontalExtraTreesRegressor
from fedforest.estimators.run_files import order_run
from fedforest.estimators.vertical import federation as federated_vertical
from fedforest.estimators.vertical import options as vertical_options
from fedforest.estimators.vertical.forests import VerticalForestClassifier
from fedforest.privacy.randomized_response import RandomizedResponse
from fedforest.protocol.aggregation.options import Masked
from fedforest.runtime.client.run_files import read_run_file
from fedforest.runtime.messages.orders import TrainHorizontal, TrainVertical, Validation

PARTIES = {"bank": "customers", "shop": "baskets"}
REST = """
[parties]
bank = "customers"
shop = "baskets"
[label]
column = "y"
"""
NOISY = 'protection = "RandomizedResponse"'


def order(folder: Path, text: str) -> TrainVertical | TrainHorizontal:
    path = folder / "run.toml"
    path.write_text(text)
    return order_run(read_run_file(path))


def vertical(more: str = "", after: str = "") -> str:
    return f'protocol = "vertical"\n{more}\n{REST}{after}\n'


def horizontal(more: str = "", after: str = "") -> str:
    return vertical(more, after).replace('"vertical"', '"horizontal"')


def test_a_vertical_file_orders_what_the_estimator_orders(tmp_path: Path) -> None:
    after = """party = "shop"
protection = "RandomizedResponse"
epsilon = 2.0
[parameters]
n_estimators = 30
max_depth = 4
voting = "hard"
early_stopping = true
class_weight = { good = 1.0, bad = 3.0 }
"""
    estimator = VerticalForestClassifier(
        n_estimators=30,
        max_depth=4,
        voting="hard",
        early_stopping=True,
        class_weight={"good": 1.0, "bad": 3.0},
        labels=RandomizedResponse(epsilon=2.0),
        label_party="shop",
        random_state=7,
    )
    options = vertical_options.read_options(estimator, "classification")
    expected = federated_vertical.order_training(estimator, options, (PARTIES, "y", "w"), None)
    assert order(tmp_path, vertical('seed = 7\nweight = "w"', after)) == expected


def test_a_file_orders_encrypted_labels_of_classes_and_numbers(tmp_path: Path) -> None:
    after = 'protection = "Encrypted"\n'
    for more in ("", 'task = "regression"'):
        ordered = order(tmp_path, vertical(more, after))
        assert isinstance(ordered, TrainVertical)
        assert ordered.encrypts_labels
        assert ordered.is_regression == bool(more)
    with pytest.raises(ConfigurationError, match="epsilon is for protection"):
        order(tmp_path, vertical("", after + "epsilon = 2.0"))


def test_a_horizontal_file_orders_what_the_estimator_orders(tmp_path: Path) -> None:
    more = """task = "regression"
aggregation = { name = "Masked", k = 1 }
participation = { share = 0.5, scope = "run", min_participants = 2 }
"""
    estimator = HorizontalExtraTreesRegressor(
        min_samples_leaf=5,
        min_weight_fraction_leaf=0.02,
        aggregation=Masked(k=1),
        participation=0.5,
        participation_scope="run",
        min_participants=2,
    )
    options = horizontal_options.read_options(estimator, "regression")
    expected = federated_horizontal.order_training(estimator, options, (PARTIES, "y", None, None))
    limits = "[parameters]\nmin_samples_leaf = 5\nmin_weight_fraction_leaf = 0.02"
    assert order(tmp_path, horizontal(more, limits)) == expected


def test_alignment_validation_and_standing_alone_are_ordered(tmp_path: Path) -> None:
    more = 'name = "March"\nalign = true\nalone = true\nvalidation = { share = 0.3 }'
    ordered = order(tmp_path, vertical(more))
    assert isinstance(ordered, TrainVertical)
    assert (ordered.name, ordered.align, ordered.alone) == ("March", True, True)
    assert ordered.validation == Validation(0.3)


@pytest.mark.parametrize(
    ("said", "method"),
    [
        ("true", "keyed-hash"),
        ('"keyed-hash"', "keyed-hash"),
        ('"psi"', "psi"),
        ('{ standing = "customers" }', "psi"),
    ],
)
def test_a_file_says_how_rows_are_aligned(tmp_path: Path, said: str, method: str) -> None:
    ordered = order(tmp_path, vertical(f"align = {said}"))
    assert isinstance(ordered, TrainVertical)
    assert ordered.align
    assert ordered.alignment_method == method


def test_classes_that_are_numbers_are_weighed_by_pairs(tmp_path: Path) -> None:
    after = "[parameters]\nclass_weight = [[0, 1.0], [1, 2.5]]"
    assert order(tmp_path, vertical(after=after)).class_weight == [(0, 1.0), (1, 2.5)]


@pytest.mark.parametrize(
    ("text", "line", "column", "told"),
    [
        (vertical(after="[parameters]\nn_estimators = 0"), 10, 16, "n_estimators is 0"),
        (vertical(after="[parameters]\nn_estimator = 5"), 10, 1, "did you mean 'n_estimators'"),
        (vertical(after="[parameters]\nrandom_state = 5"), 10, 1, "write seed = ... at the top"),
        (vertical(after="[parameters]\nn_jobs = 5"), 10, 1, "has no key 'n_jobs'"),
        (horizontal(after='[parameters]\nvoting = "hard"'), 10, 1, "has no key 'voting'"),
        (vertical(after="[parameters]\nclass_weight = [1]"), 10, 17, "pairs of class and weight"),
        (vertical(after='party = "clinic"'), 9, 9, "none of the parties"),
        (vertical(after=NOISY), 9, 14, "needs its epsilon"),
        (vertical(after=f"{NOISY}\nepsilon = -1.0"), 10, 11, "epsilon must be a positive"),
        (vertical('task = "regression"', f"{NOISY}\nepsilon = 1.0"), 9, 14, "labels='encoded'"),
        (
            vertical(after="[parameters]\noob_score = true\nbootstrap = false"),
            10,
            13,
            "tree leaves",
        ),
        (vertical(after='[parameters]\nmax_features = "half"'), 10, 16, "max_features is 'half'"),
        (vertical(after="[parameters]\nparties = 2"), 10, 1, "write a table [parties]"),
        (vertical(after='[parameters]\nlabel_party = "a"'), 10, 1, "write party = ... in [label]"),
        (vertical(after='[parameters]\nsample_weight = "w"'), 10, 1, "write weight = ... at the"),
        (vertical(after="epsilon = 2.0"), 9, 1, "labels are not noisy without it"),
        (vertical("seed = -1"), 2, 8, "random_state is -1"),
        (vertical("alone = true"), 2, 9, "add a table [validation]"),
        (vertical("validation = { share = 0.9 }"), 2, 24, "up to 0.5"),
        (vertical('name = "a/b"'), 2, 8, "letters, digits"),
        (vertical('aggregation = "Masked"'), 2, 1, "for horizontal training"),
        (horizontal("align = true"), 2, 1, "for vertical training"),
        (horizontal('aggregation = "Masket"'), 2, 15, "'Masked', 'Ring', 'Shamir', 'plain'"),
        (horizontal('aggregation = "Shamir"'), 2, 15, "needs the setting 'threshold'"),
        (horizontal('aggregation = { name = "Masked", k = 9 }'), 2, 38, "from 1 to 1"),
        (horizontal('aggregation = { name = "Masked", kk = 9 }'), 2, 34, "did you mean 'k'"),
        (horizontal('privacy = { name = "GlobalDP", epsilon = 1.0 }'), 2, 42, "a max_depth"),
        (horizontal('privacy = { name = "LocalDP", keep = 2.0 }'), 2, 38, "keep must be above 0"),
        (horizontal("participation = { share = 2.0 }"), 2, 27, "up to 1"),
        (horizontal("participation = { shares = 0.5 }"), 2, 19, "did you mean 'share'"),
        (vertical("participation = { share = 0.5 }"), 2, 19, "for horizontal training"),
        (horizontal("participation = { min_participants = 3 }"), 2, 38, "at most 2"),
        (horizontal("participation = { min_participants = 0 }"), 2, 38, "a whole number"),
        (horizontal('privacy = "LocalDP"'), 2, 11, "needs epsilon, the guarantee"),
        (
            horizontal('privacy = { name = "LocalDP", keep = 0.9, epsilon = 2.0 }'),
            *(2, 11, "epsilon and keep both say"),
        ),
        (horizontal('privacy = { name = "LocalDP", epsilon = 0 }'), 2, 41, "above zero"),
        (
            horizontal('privacy = { name = "LocalDP", epsilon = 2.0 }\nweight = "w"'),
            3,
            10,
            "sample_weight",
        ),
    ],
)
def test_what_cannot_be_is_told_with_its_place(
    tmp_path: Path, text: str, line: int, column: int, told: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        order(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path}/run.toml:{line}:{column}: ")
    assert told in str(caught.value)
