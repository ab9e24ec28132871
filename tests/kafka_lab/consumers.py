"""What a real consumer group finds after records that it consumed and committed are gone, held against `consumer_impacts`."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import LogTruncationError, OffsetOutOfRangeError

from tests.kafka_lab.cluster import Lab, wait_until
from tests.kafka_lab.load import Batch, create_topic, send

TOPIC = "subscribed"
# records by partition: known to both replicas, then only to the one that dies, then of the one that was elected uncleanly
HISTORIES = {0: (10, 5, 3), 1: (10, 5, 0), 2: (10, 4, 9), 3: (6, 0, 4)}
# how far each group had come: it commits with the epoch of the last record, as a client does, or without, as an old one
GROUPS = {"all": (100, True), "some": (8, True), "old-all": (100, False), "old-some": (8, False)}
_QUIET_S = 0.5


@dataclass(slots=True)
class Seen:
    """What a client did in one partition: the records that it got, by offset; where it stands; the error that it got."""

    records: dict[int, bytes] = field(default_factory=dict)
    position: int | None = None
    error: str | None = None
    error_offset: int | None = None

    @property
    def began_at(self) -> int | None:
        """The offset where it resumed: that of the first record, or where it stands if there was none."""
        return min(self.records, default=self.position)


def perform(lab: Lab) -> dict[str, dict[int, Seen]]:
    """Commit, lose a part of it uncleanly, go on. Returns what each group had consumed by then.

    Broker 3 holds the groups' offsets through all of it; broker 2 leads the topic at the end, broker 1 is down.
    """
    create_topic(lab, TOPIC, {partition: [1, 2] for partition in HISTORIES}, unclean_leader_election_enable="true")
    lab.wait_in_sync(TOPIC)
    _send(lab, 0, acks="all")
    lab.brokers[2].kill()
    lab.wait_registered(1, 3)
    _send(lab, 1, acks=1, before=(0,))
    consumed = {group: _consume_and_commit(lab, group, limit, with_epoch=with_epoch) for group, (limit, with_epoch) in GROUPS.items()}
    lab.brokers[1].kill()
    lab.wait_registered(3)
    lab.brokers[2].start()
    lab.wait_for("broker 2 leads", [TOPIC], lambda one: one["leader_id"] == 2)
    _send(lab, 2, acks=1, before=(0,))
    return consumed


def _send(lab: Lab, stage: int, acks: int | str, before: tuple[int, ...] = ()) -> None:
    """Send, and wait until consumers get it all: that, and what was sent in stages before."""
    batches = [Batch(TOPIC, partition, counts[stage], 40) for partition, counts in HISTORIES.items() if counts[stage]]
    send(lab, batches, acks=acks, seed=stage)
    ends = {partition: sum(counts[one] for one in (*before, stage)) for partition, counts in HISTORIES.items()}
    latest = dict.fromkeys(_places(), OffsetSpec.LATEST)

    def told() -> bool:
        found = lab.ask(lambda client: client.list_partition_offsets(latest))
        return {place.partition: one.offset for place, one in found.items()} == ends

    wait_until("high watermarks are at the log ends", told)


def _client(lab: Lab, group: str | None, policy: str) -> KafkaConsumer:
    client = KafkaConsumer(
        bootstrap_servers=lab.bootstrap, group_id=group, auto_offset_reset=policy, enable_auto_commit=False, request_timeout_ms=10_000
    )
    client.assign(_places())
    return client


def _take_up(client: KafkaConsumer) -> None:
    """Start from what is committed, its epochs too: by itself this client takes the offsets alone, and does not validate them."""
    for place in client.assignment():
        committed = client.committed(place, metadata=True)
        if committed and committed.leader_epoch >= 0:
            client._subscription.seek(place, committed)  # the public one takes no epoch


def _places() -> list[TopicPartition]:
    return [TopicPartition(TOPIC, partition) for partition in HISTORIES]


def _consume_and_commit(lab: Lab, group: str, limit: int, *, with_epoch: bool) -> dict[int, Seen]:
    client, seen, epochs = _client(lab, group, "earliest"), {partition: Seen() for partition in HISTORIES}, {}
    try:
        for record in _poll(client):
            if record.offset < limit:
                seen[record.partition].records[record.offset] = record.value
                epochs[record.partition] = record.leader_epoch if with_epoch else -1
        ends = {partition: max(one.records) + 1 for partition, one in seen.items()}
        client.commit({TopicPartition(TOPIC, partition): OffsetAndMetadata(end, "", epochs[partition]) for partition, end in ends.items()})
    finally:
        client.close(autocommit=False)
    return seen


def _poll(client: KafkaConsumer) -> Iterable[Any]:
    """Records until the client stands at the end of every partition, and none have come for a while."""
    ends, until = client.end_offsets(sorted(client.assignment())), math.inf
    while time.monotonic() < until:
        for records in client.poll(timeout_ms=100).values():
            yield from records
            until = math.inf
        if until == math.inf and all(client.position(place) == end for place, end in ends.items()):
            until = time.monotonic() + _QUIET_S


def resume(lab: Lab, group: str | None, policy: str) -> dict[int, Seen]:
    """What a group's client finds that starts again, with a reset policy (earliest, latest, none). Nothing is committed.

    A partition that stops the client with an error is left out from then on.
    """
    client, seen = _client(lab, group, policy), {partition: Seen() for partition in HISTORIES}
    try:
        if group:
            _take_up(client)
        while True:
            try:
                for record in _poll(client):
                    seen[record.partition].records[record.offset] = record.value
                break
            except LogTruncationError as error:
                stopped = {place.partition: at.offset if at else None for place, at in error.divergent_offsets.items()}
                _leave_out(client, seen, stopped, "truncated")
            except OffsetOutOfRangeError as error:
                _leave_out(client, seen, {place.partition: None for place in error.args[0]}, "out of range")
        for place in client.assignment():
            seen[place.partition].position = client.position(place)
    finally:
        client.close(autocommit=False)
    return seen


def resume_in_java(lab: Lab, group: str, policy: str, records: int) -> dict[int, list[int]]:
    """The offsets of so many records that Kafka's own client reads, by partition; nothing is committed."""
    settings = {"auto.offset.reset": policy, "enable.auto.commit": "false"}
    option = "--consumer-property" if lab.line < "4" else "--command-property"
    arguments = ["--bootstrap-server", ",".join(lab.bootstrap), "--topic", TOPIC, "--group", group]
    arguments += ["--max-messages", str(records), "--timeout-ms", "300000"]
    arguments += [word for key, value in settings.items() for word in (option, f"{key}={value}")]
    arguments += [
        word
        for name in ("print.partition", "print.offset", "print.value")
        for word in ("--property", f"{name}={str(name[6:] != 'value').lower()}")
    ]
    found: dict[int, list[int]] = {partition: [] for partition in HISTORIES}
    printed = lab.tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *arguments)
    for partition, offset in re.findall(r"^Partition:(\d+)\tOffset:(\d+)", printed, re.MULTILINE):
        found[int(partition)].append(int(offset))
    return found


def _leave_out(client: KafkaConsumer, seen: dict[int, Seen], stopped: dict[int, int | None], error: str) -> None:
    for partition, offset in stopped.items():
        seen[partition].error, seen[partition].error_offset = error, offset
    client.assign([place for place in client.assignment() if place.partition not in stopped])


def differences(row: dict[str, Any], before: Seen, content: Seen, now: dict[str, Seen]) -> Iterator[str]:
    """Hold one row of `consumer_impacts` against what the group's clients found.

    Args:
        row: of one group and partition.
        before: what the group had consumed when it committed.
        content: what the leader holds.
        now: what the group's client finds that starts again, by reset policy.
    """
    end = max(content.records, default=-1) + 1
    resumes, earliest, latest = row["reset_offset"], now["earliest"], now["latest"]
    for policy, seen, otherwise in (("earliest", earliest, 0), ("latest", latest, end)):
        expected = otherwise if resumes is None else resumes
        if seen.began_at != expected or seen.error:
            yield f"with {policy} it was to resume at {expected}, and did at {seen.began_at} ({seen.error})"
    is_truncated = row["validation_result"] == "truncated"
    error = ("truncated", row["reset_offset"]) if is_truncated else ("out of range", None) if resumes is None else (None, None)
    if (now["none"].error, now["none"].error_offset) != error:
        yield f"without a policy it was to get {error}, and got {(now['none'].error, now['none'].error_offset)}"
    had, held = before.records.items(), content.records.items()
    counted = {
        "records_gone": len(had - held),
        "records_reread": len(earliest.records.items() & had),
        "records_missed": len(held - had - latest.records.items()),
    }
    for name, number in counted.items():
        if row[name] != number:
            yield f"{name} is {row[name]}, the client found {number}"
    if bool(row["affected"]) != (counted["records_gone"] > 0):
        yield f"affected is {row['affected']}, {counted['records_gone']} of its records are gone"
