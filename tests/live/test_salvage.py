"""Records that an unclean election leaves on a dead broker: saved, replayed with the lines of SALVAGE.md, and consumed as they were sent.

The guide's own script (docs/salvaging.md) sends what the console producer cannot be told.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from kafka import KafkaConsumer, TopicPartition

from replica_audit import cli
from tests.house.checkout import ROOT
from tests.kafka_lab.cluster import Lab
from tests.kafka_lab.jars import java
from tests.kafka_lab.load import create_topic, delete_topics, producer
from tests.kafka_lab.snapshot import copy_all
from tests.salvage.made import lines, rows

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.nightly]
TOPIC, PARTITIONS = "salvaged", (0, 1)
Headers = tuple[tuple[str, bytes], ...]
Sent = tuple[bytes | None, bytes | None, Headers]
_TOOLS = {"3.9": "kafka.tools.ConsoleProducer", "4.3": "org.apache.kafka.tools.ConsoleProducer"}
_SCRIPT = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "salvaging.md").read_text(encoding="utf-8"), re.DOTALL)

# what only the broker has that dies: by partition, in order
TEXTS: dict[int, list[Sent]] = {
    0: [
        *((b"key-%d" % (n % 7), b"value-%d" % n, ()) for n in range(40)),
        (b"json", '{"a": "b,c:d\t~", "ü": "€😀"}'.encode(), (("trace", b"1-2:3,4"), ("empty", b""))),
        (b"gone", None, (("why", b"a tombstone"),)),
        (b"empty", b"", ()),
        (b"", b"an empty key", ()),
        (b"again-0", b"the leader has a newer one", ()),
        (b"last", b"line\x85ends for\xe2\x80\xa8some".replace(b"\x85", "\x85".encode()), ()),
    ],
    1: [*((b"other-%d" % n, b"%d" % n, (("n", b"%d" % n),)) for n in range(20)), (b"again-1", b"older", ())],
}
BYTES: list[Sent] = [
    (b"line", b"two\nlines", ()),
    (b"bytes", bytes(range(256)), (("b", b"\xff\x00"),)),
    (b"text", b"behind what is no text", ()),
    (b"separators ~~K~~", b"~~null~~", ()),
    (b"big", b"\x00\xff" * 300_000, ()),
]


def _send(lab: Lab, records: dict[int, list[Sent]], acks: int | str) -> None:
    with producer(lab, acks=acks, enable_idempotence=False, retries=100_000) as client:
        for partition, of_partition in records.items():
            for key, value, headers in of_partition:
                client.send(TOPIC, value, key, list(headers), partition).get(60)


def _consumed(lab: Lab, since: dict[int, int]) -> dict[int, list[tuple[Sent, int]]]:
    """What a consumer reads from these offsets on, with timestamps."""
    client = KafkaConsumer(bootstrap_servers=lab.bootstrap, group_id=None, auto_offset_reset="none", enable_auto_commit=False)
    places = [TopicPartition(TOPIC, partition) for partition in PARTITIONS]
    found: dict[int, list[tuple[Sent, int]]] = defaultdict(list)
    try:
        client.assign(places)
        for place in places:
            client.seek(place, since[place.partition])
        ends = client.end_offsets(places)
        while any(client.position(place) < ends[place] for place in places):
            for of_place in client.poll(timeout_ms=200).values():
                for one in of_place:
                    found[one.partition].append(((one.key, one.value, tuple(one.headers)), one.timestamp))
    finally:
        client.close(autocommit=False)
    return found


def _ends(lab: Lab) -> dict[int, int]:
    client = KafkaConsumer(bootstrap_servers=lab.bootstrap)
    try:
        return {place.partition: end for place, end in client.end_offsets([TopicPartition(TOPIC, one) for one in PARTITIONS]).items()}
    finally:
        client.close(autocommit=False)


def _replay(lab: Lab, folder: Path, script: Path) -> list[str]:
    """Run the lines of SALVAGE.md as they stand, but for the address and where the tools are. Returns the tools."""
    block = re.search(r"```sh\n(.*?)```", (folder / "SALVAGE.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block
    first, *commands = block[1].strip().split("\n")
    assert shlex.split(first) == ["cd", "--", str(folder)]
    ran = []
    for command in commands:
        words = [",".join(lab.bootstrap) if word == "HOST:PORT" else word for word in shlex.split(command, comments=True)]
        ran.append(words[0])
        if words[0] == "kafka-console-producer.sh":
            at = words.index("<")
            with (folder / words[at + 1]).open("rb") as stream:
                done = subprocess.run(
                    [java(), *lab.flags, _TOOLS[lab.line], *words[1:at]],
                    cwd=folder,
                    stdin=stream,
                    capture_output=True,
                    text=True,
                    check=False,
                )
        else:
            assert words[:2] == ["python3", "replay_base64.py"]
            done = subprocess.run([sys.executable, str(script), *words[2:]], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "ERROR" not in done.stdout + done.stderr
    return ran


def test_what_was_saved_is_replayed_and_consumed(lab: Lab, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    create_topic(lab, TOPIC, {0: [1, 2], 1: [1, 2]}, unclean_leader_election_enable="true", min_insync_replicas=1)
    lab.wait_in_sync(TOPIC)
    _send(lab, {partition: [(b"common", b"%d" % partition, ())] for partition in PARTITIONS}, acks="all")
    lab.brokers[2].kill()
    lab.wait_for("broker 1 leads alone", [TOPIC], lambda one: set(one["isr_nodes"]) == {1})
    lost = {0: TEXTS[0], 1: TEXTS[1] + BYTES}
    _send(lab, lost, acks=1)
    lab.brokers[1].kill()
    lab.wait_registered(3)
    lab.brokers[2].start()
    lab.wait_for("broker 2 leads", [TOPIC], lambda one: one["leader_id"] == 2)
    newer: dict[int, list[Sent]] = {partition: [(b"again-%d" % partition, b"newer", ())] for partition in PARTITIONS}
    _send(lab, newer, acks=1)

    root, output = copy_all(lab, tmp_path / "copy"), tmp_path / "saved"
    assert cli.main(["triage", "--input", str(root), "--topics", TOPIC, "--salvage", str(output)]) == 1
    count = sum(map(len, lost.values()))
    assert f"Saved {count} records of 2 cuts in 2 partitions, {count - 2} for a replay." in capfd.readouterr().out
    held: dict[int, list[Sent]] = defaultdict(list)
    for row in rows(output):
        headers = tuple((one["key"].decode(), one["value"]) for one in row["headers"])
        held[row["partition"]].append((row["key"], row["value"], headers))
        assert (row["kept_back"] == "newer-on-leader") == (row["key"] == b"again-%d" % row["partition"])
    assert held == lost
    assert (len(lines(output, f"{TOPIC}-0.console.txt")), len(lines(output, f"{TOPIC}-1.console.txt"))) == (len(TEXTS[0]) - 1, 20)
    assert len(lines(output, f"{TOPIC}-1.base64.jsonl")) == len(BYTES)

    lab.brokers[1].start()
    lab.wait_in_sync(TOPIC)
    before = _ends(lab)
    assert before == {0: 2, 1: 2}  # all of it is gone
    script = tmp_path / "replay_base64.py"
    assert _SCRIPT
    script.write_text(_SCRIPT[1], encoding="utf-8")
    assert Counter(_replay(lab, output, script)) == {"kafka-console-producer.sh": 2, "python3": 1}

    found = _consumed(lab, before)
    replayed = {partition: [one for one in of if one[0] != b"again-%d" % partition] for partition, of in lost.items()}
    assert Counter(one for of in found.values() for one, _time in of) == Counter(one for of in replayed.values() for one in of)
    for key in {one[0] for of in replayed.values() for one in of}:
        mine = [one for of in replayed.values() for one in of if one[0] == key]
        assert [one for of in found.values() for one, _time in of if one[0] == key] == mine
    times = {row["key"]: row["timestamp_ms"] for row in rows(output) if row["partition"] == 1}
    sent = [(one, time) for one, time in found[1] if one in BYTES]
    assert sent == [(one, times[one[0]]) for one in BYTES]
    delete_topics(lab, TOPIC)
