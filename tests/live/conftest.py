"""One cluster of each line of Kafka for all live tests: starting one takes ten seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kafka_lab.cluster import Lab
from tests.kafka_lab.jars import VERSIONS

LATEST, *OLDER = VERSIONS


@pytest.fixture(scope="session", params=[LATEST, *(pytest.param(line, marks=pytest.mark.nightly) for line in OLDER)])
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Three brokers and a controller. A test leaves all of them running."""
    with Lab(request.param, parent=tmp_path_factory.mktemp("lab")) as made:
        yield made
