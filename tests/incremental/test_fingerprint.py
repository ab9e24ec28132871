"""The fingerprint of a partition: every input that rows depend on changes it, and what no row depends on does not."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import date
from typing import Any

import pytest

from replica_audit.model import Appearance, Election, PartitionMetadata
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.known.fingerprint import UNKNOWN, ClusterIdentity, Fingerprint, SinceLastRun, fingerprint, since_last_run
from replica_audit.partition.known.log_directories import OtherCopy, SharedId, WholeBroker
from replica_audit.partition.known.looks import claim_look, commits_identity, event_look
from replica_audit.protocol.cluster.cluster_history import ClusterHistory, Moment
from replica_audit.protocol.cluster.generation import Generation
from replica_audit.protocol.cluster.log_events import EventKind, LogEvent
from replica_audit.protocol.cluster.message_format import MessageFormats
from replica_audit.protocol.comparison.compare_mode import CompareMode
from replica_audit.protocol.exchange.replay import Protocol
from replica_audit.protocol.verdict.acknowledgement import Acknowledgement, Acknowledgements

ELECTED_MS, NIGHT_MS, DAY_MS = 1_000_000_000, 2_000_000_000, 86_400_000
ELECTION = Election(3, 1, "clean", (1, 2), (), 40, 2, ELECTED_MS)
CLAIM = PartitionMetadata(
    topic="orders",
    partition=0,
    topic_id="A",
    compacted=False,
    leader=1,
    leader_epoch=3,
    replicas=(1, 2),
    isr=(1, 2),
    source="metadata-log",
    known_at_ms=ELECTED_MS,
    log_epoch=2,
    log_end_offset=100,
    elections=(ELECTION,),
)
FILE = replace(CLAIM, source="cluster-metadata", known_at_ms=NIGHT_MS, log_epoch=-1, log_end_offset=-1, elections=())
EVENT = LogEvent(2, "orders", 0, EventKind.LOG_TRUNCATION, "2026-01-02 03:04:05,678", 7, 100, offset=10)
REPLICA = Appearance(identity="1", log_dir="/data", directory="orders-0", captured_at_ms=NIGHT_MS, verified_at_ms=5)
Seen = list[tuple[int | None, Appearance]]
ONE = Acknowledgement(line=1, reason="known", who="ana", until=date(2026, 12, 1))
OTHER = REPLICA._replace(identity="2")
FACTS = ClusterFacts(
    generation=Generation(Protocol.TRUNCATE_ON_FETCH, "by the version"),
    broker_states={1: "up", 2: "up"},
    metadata_log_end=(2, 100),
    history=ClusterHistory(end=Moment(100, 2, NIGHT_MS)),
)
LOOKS: Seen = [
    (None, claim_look(FILE)),
    (1, claim_look(CLAIM)),
    (1, REPLICA),
    (2, OTHER),
    (2, event_look(EVENT)),
]


def made(looks: Seen = LOOKS, facts: ClusterFacts = FACTS, commits: tuple[object, ...] = ()) -> Fingerprint:
    return fingerprint(looks, commits_identity(commits), ClusterIdentity.of(facts))


def test_where_nothing_was_found_the_quiet_digest_is_enough() -> None:
    both, other = made(), made(with_look(2, identity="other"))
    assert both.whole is not None
    assert both.quiet is not None

    def again(whole: str | None, quiet: str | None) -> Fingerprint:
        return fingerprint(LOOKS, commits_identity(()), ClusterIdentity.of(FACTS), Fingerprint(whole=whole, quiet=quiet))

    assert again(None, both.quiet) == Fingerprint(whole=None, quiet=both.quiet)
    for before in ((None, None), (both.whole, None), (other.whole, None), (None, other.quiet), (other.whole, other.quiet)):
        assert again(*before) == both


def with_look(place: int, **values: Any) -> Seen:
    broker, look = LOOKS[place]
    return [*LOOKS[:place], (broker, look._replace(**values)), *LOOKS[place + 1 :]]


def with_claim(place: int, claim: PartitionMetadata) -> Seen:
    return [*LOOKS[:place], (LOOKS[place][0], claim_look(claim)), *LOOKS[place + 1 :]]


# of every kind of input one change, which must be in both digests
CHANGES: dict[str, Callable[[], Fingerprint]] = {
    "a replica's files": lambda: made(with_look(2, identity="other")),
    "a log directory": lambda: made(with_look(2, log_dir="/other")),
    "a directory's name": lambda: made(with_look(2, directory="orders-0.0123-delete")),
    "a replica is gone": lambda: made([one for one in LOOKS if one[1] is not OTHER]),
    "a replica more": lambda: made([*LOOKS, (3, OTHER)]),
    "a replica of another broker": lambda: made([*LOOKS[:3], (3, OTHER), LOOKS[4]]),
    "a copy of the metadata log is gone": lambda: made([LOOKS[0], *LOOKS[2:]]),
    "an election": lambda: made(with_claim(1, replace(CLAIM, elections=(ELECTION, ELECTION._replace(leader_epoch=4))))),
    "an event": lambda: made([*LOOKS[:4], (2, event_look(EVENT._replace(offset=11)))]),
    "an event more": lambda: made([*LOOKS, (2, event_look(EVENT._replace(line=8)))]),
    "a commit": lambda: made(commits=({"group_id": "g", "offset": 1},)),
    "the file is older than the election": lambda: made(with_claim(0, replace(FILE, known_at_ms=ELECTED_MS - 1))),
    "the file is as old as the election": lambda: made(with_claim(0, replace(FILE, known_at_ms=ELECTED_MS))),
    "a replica was collected before the election": lambda: made(with_look(2, captured_at_ms=ELECTED_MS - 1)),
    "a replica was collected just after the election": lambda: made(with_look(2, captured_at_ms=ELECTED_MS + 9_999)),
    "a replica was collected after the file was written": lambda: made(with_look(2, captured_at_ms=NIGHT_MS + 1)),
    "it is unknown when a replica was copied": lambda: made(with_look(2, captured_at_ms=None)),
    "the copy of the metadata log is not the farthest": lambda: made(facts=replace(FACTS, metadata_log_end=(2, 101))),
}
# a fact of the cluster that is not named here has no test: the one below fails
FACTS_CHANGED: dict[str, Any] = {
    "generation": Generation(Protocol.KIP_279, "by the version"),
    "moves": Protocol.KIP_101,
    "broker_states": {1: "up", 2: "down"},
    "fenced": {2: True},
    "broker_epochs": {1: 5},
    "simultaneous": True,
    "what_if_leaders": True,
    "logs_go_on": True,
    "compare": CompareMode.EPOCHS,
    "show_keys": True,
    "describes_producers": False,
    "formats": MessageFormats(leave_tables_alone=True),
    "named": (1, 2),
    "kafka_version": "4.1.0",
    "kraft": (1,),
    "whole_brokers": {1: WholeBroker("data-0", ())},
    "other_copies": (OtherCopy(1, "data-1", "data-0", True),),
    "shared_ids": (SharedId("A", ((1, "data-0"), (2, "data-0"))),),
}
WHOLE_ONLY: dict[str, ClusterFacts] = {
    "history": replace(FACTS, history=replace(FACTS.history, end=Moment(101, 2, NIGHT_MS + 1))),
    "acknowledged": replace(FACTS, acknowledged=Acknowledgements(entries=(ONE,), on=ONE.until)),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_decides_rows_is_in_both_digests(what: str) -> None:
    changed = CHANGES[what]()
    assert changed.quiet != made().quiet
    assert changed.whole != made().whole


def _other(name: str) -> Any:
    value = getattr(CLAIM, name)
    if isinstance(value, bool) or value is None:
        return True if name.endswith("election") or isinstance(value, bool) else 17
    if isinstance(value, int):
        return value + 1
    return f"{value}x" if isinstance(value, str) else (*value, *(value or (9,)))


@pytest.mark.parametrize(
    "name", [one.name for one in fields(PartitionMetadata) if one.name not in ("log_epoch", "log_end_offset", "source")]
)
def test_every_field_of_a_claim_is_in_both_digests(name: str) -> None:
    changed = made(with_claim(1, replace(CLAIM, **{name: _other(name)})))
    assert changed.quiet != made().quiet
    assert changed.whole != made().whole


@pytest.mark.parametrize("name", FACTS_CHANGED)
def test_facts_of_the_cluster_are_in_both_digests(name: str) -> None:
    changed = made(facts=replace(FACTS, **{name: FACTS_CHANGED[name]}))
    assert changed.quiet != made().quiet
    assert changed.whole != made().whole


@pytest.mark.parametrize("name", WHOLE_ONLY)
def test_what_only_findings_show_is_in_the_whole_digest(name: str) -> None:
    changed = made(facts=WHOLE_ONLY[name])
    assert changed.quiet == made().quiet
    assert changed.whole != made().whole


def test_brokers_over_time_are_in_both_digests() -> None:
    changed = made(facts=replace(FACTS, history=replace(FACTS.history, release=(3, 6))))
    assert changed.quiet != made().quiet
    assert changed.whole != made().whole


def test_every_fact_of_a_cluster_is_tested_here() -> None:
    tested = {*FACTS_CHANGED, *WHOLE_ONLY, "metadata_log_end"}
    assert {one.name for one in fields(ClusterFacts)} - tested == {"audited_at_ms"}, "it counts with --compare records alone"
    assert made(facts=replace(FACTS, audited_at_ms=7)) == made()


def test_a_day_counts_for_acknowledgements_only_where_one_expires() -> None:
    first, last, after = (
        made(facts=replace(FACTS, acknowledged=Acknowledgements(entries=(ONE,), on=on)))
        for on in (date(2026, 11, 1), ONE.until, date(2026, 12, 2))
    )
    assert first == last
    assert after.whole != last.whole
    assert after.quiet == last.quiet


def test_a_night_that_only_passes_changes_neither_digest_without_a_metadata_log() -> None:
    no_log = [one for one in LOOKS if one[1].log_end_offset < 0]
    later = [(broker, look._replace(captured_at_ms=look.captured_at_ms and NIGHT_MS + DAY_MS)) for broker, look in no_log[1:]]
    other = replace(FACTS, history=replace(FACTS.history, end=Moment(200, 2, NIGHT_MS + DAY_MS)))
    assert made([(None, claim_look(replace(FILE, known_at_ms=NIGHT_MS + DAY_MS))), *later], other) == made(no_log)


def test_a_night_that_only_passes_changes_the_whole_digest_alone_where_the_metadata_log_went_on() -> None:
    later = [
        (None, claim_look(replace(FILE, known_at_ms=NIGHT_MS + DAY_MS))),
        (1, claim_look(replace(CLAIM, log_end_offset=200))),
        *((broker, look._replace(captured_at_ms=NIGHT_MS + DAY_MS, verified_at_ms=6, looked_at_ms=7)) for broker, look in LOOKS[2:4]),
        LOOKS[4],
    ]
    end = replace(FACTS, metadata_log_end=(2, 200), history=replace(FACTS.history, end=Moment(200, 2, NIGHT_MS + DAY_MS)))
    assert made(later, end).quiet == made().quiet
    assert made(later, end).whole != made().whole


def test_order_does_not_count() -> None:
    for seed in range(20):
        shuffled = list(LOOKS)
        random.Random(seed).shuffle(shuffled)  # noqa: S311
        assert made(shuffled) == made()
    assert made(commits=(1, 2)) == made(commits=(2, 1))


def test_when_crcs_were_verified_does_not_count() -> None:
    assert made(with_look(2, verified_at_ms=None)) == made()


def test_what_cannot_be_told_is_never_the_same() -> None:
    assert made(with_look(2, identity=None)) == UNKNOWN
    assert made([*LOOKS, (1, REPLICA)]) == UNKNOWN, "two copies of one directory"


A, B = Fingerprint(whole="a", quiet="q"), Fingerprint(whole="b", quiet="q")


@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [
        pytest.param(A, None, SinceLastRun.NEW, id="the earlier run did not know it"),
        pytest.param(None, A, SinceLastRun.GONE, id="nothing is there any more"),
        pytest.param(A, Fingerprint(whole="a", quiet=None), SinceLastRun.UNCHANGED, id="with findings, and all of it is as it was"),
        pytest.param(A, Fingerprint(whole=None, quiet="q"), SinceLastRun.UNCHANGED, id="quiet, and what decides is as it was"),
        pytest.param(B, Fingerprint(whole="a", quiet=None), SinceLastRun.CHANGED, id="with findings, and what counts for them changed"),
        pytest.param(replace(A, quiet="r"), Fingerprint(whole=None, quiet="q"), SinceLastRun.CHANGED, id="quiet no more"),
        pytest.param(A, UNKNOWN, SinceLastRun.CHANGED, id="it may not be compared by anything"),
        pytest.param(UNKNOWN, UNKNOWN, SinceLastRun.CHANGED, id="it cannot be told"),
    ],
)
def test_what_a_partition_is_against_an_earlier_run(now: Fingerprint | None, before: Fingerprint | None, expected: SinceLastRun) -> None:
    assert since_last_run(now, before) is expected
