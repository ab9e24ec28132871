"""A JVM of the tests' own, driven through py4j: Kafka's classes, without Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import py4j.java_gateway
import py4j.protocol
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway


@contextmanager
def own_exceptions() -> Iterator[None]:
    """Py4j as it is: a session of Spark in this process makes it ask Spark's JVM about every exception, also those of this JVM."""
    changed = py4j.java_gateway.get_return_value
    py4j.java_gateway.get_return_value = py4j.protocol.get_return_value
    try:
        yield
    finally:
        py4j.java_gateway.get_return_value = changed


@contextmanager
def jvm(class_path: str, options: Sequence[str], complaints: Path) -> Iterator[JavaGateway]:
    """Start a JVM, reachable from this machine and with a token only; ended whatever happens.

    Args:
        class_path: of what is to be driven.
        options: of the JVM.
        complaints: the file for its stderr.
    """
    spark = find_spec("pyspark")
    assert spark is not None and spark.submodule_search_locations
    (py4j_jar,) = Path(spark.submodule_search_locations[0]).glob("jars/py4j-*.jar")
    with complaints.open("w") as stderr:
        port, token, process = launch_gateway(
            jarpath=str(py4j_jar),
            classpath=class_path,
            javaopts=list(options),
            java_path=None,  # JAVA_HOME's if there is one
            die_on_exit=True,  # even if this process is killed
            enable_auth=True,
            return_proc=True,
            redirect_stderr=stderr,
        )
    try:
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        yield gateway
        gateway.close()
    finally:
        process.kill()
        process.wait()
