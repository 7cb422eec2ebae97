"""schemathesis on the descriptions of both applications: what they say is what they do."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.config import SchemathesisConfig

from fedforest.web.api.guard import Guard, WebLimits
from fedforest.web.serving.app import make_app
from tests.web.federation.api_federations import ApiFederation, KnownTokens, api_federation
from tests.web.served_models import colours, served

# A description cannot say that names in one request must be of things that are there.
CONFIG = {"checks": {"positive_data_acceptance": {"expected-statuses": ["2xx", "4xx"]}}}
FEW = settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
TOKEN = {"Authorization": "Bearer ada"}


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiFederation]:
    with api_federation(tmp_path_factory.mktemp("described")) as federation:
        yield federation


def fuzz(app: Any) -> int:
    """Ask every operation for what its description allows and does not allow; count operations."""
    config = SchemathesisConfig.from_dict(CONFIG)
    schema = schemathesis.openapi.from_asgi("/v1/openapi.json", app, headers=TOKEN, config=config)
    n_operations = 0
    operations: Any = schema.get_all_operations()
    for found in operations:
        operation = found.ok()
        n_operations += 1
        for mode in GenerationMode:
            fuzz_operation(operation, mode)
    return n_operations


def fuzz_operation(operation: Any, mode: GenerationMode) -> None:
    @FEW
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        case.call_and_validate(headers=TOKEN)

    with contextlib.suppress(Unsatisfiable):  # nothing about this operation can be wrong
        ask()


@pytest.mark.slow
def test_the_api_of_a_federation_does_what_its_description_says(
    federation: ApiFederation,
) -> None:
    assert fuzz(federation.app) == 12  # all but the description itself


def test_served_models_do_what_their_description_says() -> None:
    guard = Guard(KnownTokens(), WebLimits(failures_per_second=0.0))
    assert fuzz(make_app([served("colours", colours()[1])], guard)) == 3
