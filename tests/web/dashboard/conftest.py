"""Pages that tests share: no test leaves anything behind that another would see."""

from collections.abc import Iterator

import pytest

from tests.web.dashboard.sites import CoordinatorPages, coordinator_pages


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CoordinatorPages]:
    with coordinator_pages(tmp_path_factory.mktemp("pages")) as found:
        yield found
