"""What all tests share: hypothesis profiles and the Spark session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("bounded", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("exhaustive", max_examples=20_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "bounded"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session for all tests; it costs seconds to start."""
    from tests.support.spark import start

    session = start(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()
