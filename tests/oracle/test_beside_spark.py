"""The oracle in a process that has also started Spark, as a worker of the test runner has."""

from __future__ import annotations

import py4j.java_gateway
import pytest
from pyspark.errors.exceptions.captured import install_exception_handler

from tests.oracle.kafka_classes import Kafka, Refused

pytestmark = pytest.mark.oracle


def test_sparks_handler_of_exceptions_is_not_asked_about_kafkas(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(py4j.java_gateway, "get_return_value", py4j.java_gateway.get_return_value)  # undone afterwards
    install_exception_handler()
    sparks = py4j.java_gateway.get_return_value
    with pytest.raises(Refused, match="NumberFormatException"):
        kafka.epoch_lines(b"0\n1\nno number\n")
    assert py4j.java_gateway.get_return_value is sparks
