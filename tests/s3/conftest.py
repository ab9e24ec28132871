"""One store for the tests of this folder, found by the variables of AWS as a user would set them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.s3.store import Store, s3_store


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with s3_store() as started, pytest.MonkeyPatch.context() as environment:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            environment.delenv(name)
        for name, value in started.variables.items():
            environment.setenv(name, value)
        yield started
