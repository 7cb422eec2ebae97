"""Small models for tests of serving."""

from functools import lru_cache
from typing import Any

from fedforest import HorizontalExtraTreesClassifier, HorizontalExtraTreesRegressor
from fedforest.tree.files.forests import decode_forest
from fedforest.web.serving.model import ServedModel
from tests.estimators.vertical_samples import amounts, labels, mixed_frame, numbers


@lru_cache
def colours() -> tuple[Any, bytes]:
    forest = HorizontalExtraTreesClassifier(5, random_state=0).fit(numbers(), labels(numbers()))
    return forest, forest.to_bytes()


@lru_cache
def customers() -> tuple[Any, bytes]:
    forest = HorizontalExtraTreesRegressor(5, random_state=0)
    return forest.fit(mixed_frame(), amounts(numbers())), forest.to_bytes()


def served(name: str, file: bytes) -> ServedModel:
    return ServedModel(name, decode_forest(file))
