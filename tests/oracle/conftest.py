"""Kafka as the oracle of the tests in this folder.

`HYPOTHESIS_PROFILE=exhaustive tests/run.sh -m oracle --timeout 0` looks for differences for as long as that takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.oracle import kafka_classes

ROOT = Path(__file__).resolve().parents[2]
JARS = ROOT / ".cache" / "oracle-jars"


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka_classes.Kafka]:
    """Kafka's classes in a JVM without Spark."""
    dependencies = ElementTree.parse(Path(__file__).with_name("ivy.xml")).iter("dependency")  # noqa: S314 -- our own file
    jars = [JARS / f"{dependency.get('name')}-{dependency.get('rev')}.jar" for dependency in dependencies]
    missing = [jar.name for jar in jars if not jar.exists()]
    if missing:
        pytest.fail(f"{', '.join(missing)} not in {JARS}: start tests/run.sh, which fetches them", pytrace=False)
    with kafka_classes.kafka(jars, tmp_path_factory.mktemp("oracle")) as classes:
        yield classes
