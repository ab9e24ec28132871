"""The versions that a server.log tells."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from replica_audit.formats.server_log.events import logged_versions
from replica_audit.model import LoggedVersions

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample"
OLD = b"[2026-11-21 06:51:07,477] INFO Kafka version : 1.1.1 (org.apache.kafka.common.utils.AppInfoParser)\n"
NEW = b"[2026-11-21 06:59:30,356] INFO Kafka version: 2.4.1 (org.apache.kafka.common.utils.AppInfoParser)\n"
CONFIG = (
    b"[2026-11-21 06:59:30,100] INFO KafkaConfig values: \n\tbroker.id = 1\n\tinter.broker.protocol.version = 1.1-IV0\n\tlog.dir = /x\n"
)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(b"", (None, None), id="empty"),
        pytest.param(OLD, ("1.1.1", None), id="until 1.1"),
        pytest.param(NEW, ("2.4.1", None), id="since 2.0"),
        pytest.param(CONFIG + NEW, ("2.4.1", "1.1-IV0"), id="its configuration, too"),
        pytest.param(OLD + NEW, ("2.4.1", None), id="the last counts: it was upgraded"),
        pytest.param(NEW + b"INFO Kafka version: unknown\n", ("2.4.1", None), id="one that is no version"),
        pytest.param(b"INFO Kafka version: 7.5.0-ccs\n", ("7.5.0-ccs", None), id="a vendor counts otherwise"),
        pytest.param(b"INFO Kafka version : 2.0.0.3.1.0.0-78 (o)\n", ("2.0.0.3.1.0.0-78", None), id="a vendor puts its own behind"),
        pytest.param(b'{"message":"Kafka version: 2.8.0.redhat-00002"}\n', ("2.8.0.redhat-00002", None), id="in JSON"),
        pytest.param(OLD + b"INFO Kafka version: 25.1.1\n", ("25.1.1", None), id="none of Kafka's, but the last"),
        pytest.param(b"INFO Kafka version: 3.6.0.\n", ("3.6.0.", None), id="the end of a sentence"),
        pytest.param(b"\tinter.broker.protocol.version = null\n", (None, None), id="not set"),
        pytest.param(b"\xff\x00" * 9 + NEW.rstrip(), ("2.4.1", None), id="bytes that are no text, no line feed"),
    ],
)
def test_what_a_log_tells(content: bytes, told: tuple[str | None, str | None]) -> None:
    assert logged_versions(io.BytesIO(content)) == LoggedVersions(*told)


@pytest.mark.parametrize("before", range((1 << 18) - 120, (1 << 18) + 10, 13))
def test_it_is_found_across_the_borders_of_what_is_read_at_once(before: int) -> None:
    assert logged_versions(io.BytesIO(b"x" * before + b"\n" + CONFIG + OLD + b"y" * (1 << 18))) == ("1.1.1", "1.1-IV0")


def test_logs_of_real_brokers() -> None:
    """What ran is known from the metadata that was asked of the brokers."""
    found: dict[Path, set[str | None]] = {}
    for path in SAMPLE.glob("*/broker-*/server.log"):
        with path.open("rb") as stream:
            found.setdefault(path.parents[1], set()).add(logged_versions(stream).kafka_version)
    ran = {root: json.loads((root / "cluster-metadata.json").read_text())["kafka_version"] for root in found}
    assert set(ran.values()) == {"1.1.1", "4.2.0"}
    for root, versions in found.items():
        assert ran[root] in versions
        assert versions <= {ran[root], None}, "a log that was cut to some lines may not show it"
