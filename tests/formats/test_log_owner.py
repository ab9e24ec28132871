"""Which broker wrote a log."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from replica_audit.formats.server_log.log_writers import owner, written_by

TIME = "[2026-11-21 06:36:15,750] INFO "


@pytest.mark.parametrize(
    "name",
    [
        "[KafkaServer id=12] started",
        "[BrokerServer id=12] Transition from STARTING to STARTED",
        "[BrokerLifecycleManager id=12] The broker is in RECOVERY.",
        "[Broker id=12] Follower orders-0 starts at leader epoch 4",
        "[ReplicaManager broker=12] Shutting down",
        "[ReplicaFetcher replicaId=12, leaderId=1, fetcherId=0] Truncating",
    ],
)
def test_names_of_a_brokers_parts(name: str) -> None:
    text = f"{TIME}starting\n\tx\n{TIME}{name} (x)\n{TIME}[Broker id=3] y\n"
    assert owner(io.BytesIO(text.encode())) == (12, 3)


@pytest.mark.parametrize(
    "line",
    [
        "[Controller id=0 epoch=1] Sending LeaderAndIsr request to broker 1",
        "[QuorumController id=3000] UNCLEAN partition change for a-0",
        "[BrokerToControllerChannelManager id=101 name=heartbeat] Client requested disconnect from node 2",
        "[Broker id=12345678901] x",
        "[Consumer clientId=Broker id=3, groupId=g] x",
        "",
    ],
)
def test_lines_that_name_no_broker(line: str) -> None:
    assert owner(io.BytesIO(f"{TIME}{line}\n".encode())) is None


def test_a_name_across_blocks_and_the_line_it_is_in() -> None:
    for padding in range((1 << 18) - 40, (1 << 18) + 3):
        text = b"x\n" * 100 + b"y" * (padding - 200) + b"\n[Broker id=7] z\n"
        assert owner(io.BytesIO(text)) == (7, 102)
    assert owner(io.BytesIO(b"x" * (1 << 20) + b"[Broker id=7]"), 1 << 19) is None


def test_files_of_any_name(tmp_path: Path) -> None:
    log, other, folder = tmp_path / "kafka-0.log", tmp_path / "notes.txt", tmp_path / "f"
    log.write_text(f"{TIME}[BrokerServer id=7] x\n")
    other.write_text("[Broker id=7] is down since 10:30\n")
    folder.mkdir()
    assert (written_by(log), written_by(other), written_by(folder)) == ((True, 7), (False, None), (False, None))
    log.write_text(f"{TIME}starting (kafka.server.KafkaServer)\n")
    assert written_by(log) == (True, None)
    log.write_bytes(gzip.compress(f"{TIME}[BrokerServer id=8] x\n".encode()))
    assert written_by(log) == (True, 8)
