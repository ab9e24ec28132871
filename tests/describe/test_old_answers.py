"""Answers that live brokers of today do not give any more, as kafka-python decodes them."""

from __future__ import annotations

from kafka.protocol.consumer import OffsetForLeaderEpochResponse

from replica_audit.protocol.cluster.epoch_answers import LeaderThen
from replica_audit.protocol.epochs.epoch_table import EpochEntry, table
from replica_audit.storage.cluster.verification import Asked, PartitionThen, taken

THEN = LeaderThen(leader_id=1, entries=table([(0, 0)]), log_end_offset=10)


def _taken(end_offset: int, version: int) -> tuple[Asked, list[tuple[str, str]]]:
    """Take an answer that went over the wire in a version of the protocol."""
    topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
    part = topic.EpochEndOffset(error_code=0, partition=0, leader_epoch=0 if end_offset >= 0 else -1, end_offset=end_offset)
    sent = OffsetForLeaderEpochResponse(topics=[topic(topic="t", partitions=[part])]).encode(version=version)
    received = OffsetForLeaderEpochResponse.decode(sent, version=version).topics[0].partitions[0]
    then = PartitionThen(topic="t", partition=0, topic_id=None, leader=THEN, epochs=(0,))
    asked = Asked(then=then, leader=1, leader_epoch=0, waiting=[0])
    return asked, list(taken(asked, 1, received))


def test_an_answer_without_its_epoch_is_told_and_not_judged() -> None:
    asked, failed = _taken(10, version=0)
    assert failed == [("t-0", "brokers before 2.0 do not say which epoch their answer is about")]
    assert not asked.answers


def test_later_ones_are_taken() -> None:
    asked, failed = _taken(10, version=3)
    assert (failed, asked.answers) == ([], {0: EpochEntry(0, 10)})
    undefined, failed = _taken(-1, version=3)
    assert (failed, undefined.answers) == ([], {0: EpochEntry(-1, -1)})
