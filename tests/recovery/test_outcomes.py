"""What each finding and verdict makes of a start."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from replica_audit.config import Settings
from replica_audit.local_run import triage
from replica_audit.past.starts import broker_starts
from replica_audit.protocol.cluster.leadership import INFERRED, InferredBecause
from replica_audit.protocol.verdict.acknowledgement import AckState
from replica_audit.protocol.verdict.partition_findings import PartitionCode
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.recovery.outcomes import AuditedRows, replica_starts
from replica_audit.rows import REPLICA_STARTS
from replica_audit.rows.arrow import schema_of
from replica_audit.rows.codes import Cause
from replica_audit.rows.encoding import as_dict
from replica_audit.rows.findings import AcknowledgedBy, FoundFinding, SetAsideLog
from replica_audit.rows.pairs import RecordsByTransaction, ReplicaVerdict
from replica_audit.rows.replicas import ReplicaLog, ReplicaRole
from replica_audit.rows.runs import ReportedProblem
from replica_audit.rows.starts import OUTCOME_OF, BrokerStart, ReplicaStart, StartBecause, StartOutcome
from replica_audit.rows.what_if import FollowerCut, WhatIfLeader
from replica_audit.storage.warehouse.arrow_tables import MemoryTables
from tests.cases.shapes import filled, metadata, replica, stop
from tests.recovery.blank_rows import row
from tests.support import in_process

DATA = Path(__file__).resolve().parents[1] / "data"
PLACE: dict[str, Any] = {"topic": "t", "partition": 0}
SPLIT = RecordsByTransaction(committed=1, aborted=2, markers=1)
LOGS = [row(ReplicaLog, **PLACE, broker_id=broker, state="current") for broker in (1, 2)]


def verdict(code: str, **known: Any) -> ReplicaVerdict:
    """Of follower 2 under leader 1."""
    place = {**PLACE, "leader_id": 1, "follower_id": 2, "leader_source": "metadata-log", "already_truncated": False}
    return row(ReplicaVerdict, **(place | {"verdict": code} | known))


def finding(code: str, **known: Any) -> FoundFinding:
    return row(FoundFinding, **({**PLACE, "code": code, "broker_id": 2, "severity": "error"} | known))


def started(*, logs: list[ReplicaLog] | None = None, **rows: Any) -> dict[int, ReplicaStart]:
    return {one.broker_id: one for one in replica_starts(AuditedRows(**PLACE, logs=LOGS if logs is None else logs, **rows))}


def because(**rows: Any) -> tuple[str, ...]:
    return started(**rows)[2].because


@pytest.mark.parametrize("code", [Verdict.IDENTICAL, Verdict.LAGGING, Verdict.CONSISTENT, Verdict.EPOCH_TABLE_ONLY, Verdict.REBATCHED])
def test_what_loses_nothing_is_safe(code: Verdict) -> None:
    assert started(verdicts=[verdict(code)]) == {}


def test_a_replica_that_is_alone_is_safe_only_where_metadata_says_so() -> None:
    (alone,) = started(logs=LOGS[:1]).values()
    assert (alone.outcome, alone.because) == (StartOutcome.UNKNOWN, (StartBecause.NOT_COMPARED,))
    assert started(logs=LOGS[:1], roles=[row(ReplicaRole, **PLACE, broker_id=1, position=0, leader_id=1)]) == {}


@pytest.mark.parametrize(("leader_ran", "follower_ran", "is_costly"), [(False, True, True), (False, False, False), (True, True, False)])
def test_a_stopped_leader_for_which_running_followers_truncate(leader_ran: bool, follower_ran: bool, is_costly: bool) -> None:
    logs = [replace(LOGS[0], broker_ran=leader_ran), replace(LOGS[1], broker_ran=follower_ran)]
    losing = {"leader_id": 1, "truncation_offset": 10, "divergence_offset": 10, "lost_offsets": 5, "lost_records": 4}
    found = started(logs=logs, verdicts=[verdict(Verdict.COMMITTED_LOSS, **losing)])
    assert (1 in found) is is_costly
    if is_costly:
        assert (found[1].outcome, found[1].because) == (StartOutcome.COPY_FIRST, (StartBecause.OTHERS_TRUNCATE,))
    again = started(logs=logs, verdicts=[verdict(Verdict.STALE_TAIL, **(losing | {"lost_offsets": 0, "lost_records": 0}))])
    assert 1 not in again, "what is fetched again costs nothing"


@pytest.mark.parametrize(("ran", "severity", "is_costly"), [(False, "error", True), (True, "error", False), (False, "warning", False)])
def test_the_only_copy_is_not_deleted_uncopied(ran: bool, severity: str, is_costly: bool) -> None:
    deleted = replace(LOGS[1], state="deleted", directory="t-0.1-delete", broker_ran=ran)
    log = row(SetAsideLog, log_dir=deleted.log_dir, directory=deleted.directory, held_alone_offsets=7)
    held = finding(PartitionCode.STRAY_HOLDS_RECORDS, severity=severity, set_aside=(log,))
    found = started(logs=[*LOGS, deleted], verdicts=[verdict(Verdict.IDENTICAL)], found=[held])
    assert [one.because for one in found.values()] == [(StartBecause.DELETES,)] * is_costly


def test_records_that_only_the_follower_holds_are_copied_first() -> None:
    losing = {
        "truncation_offset": 10,
        "divergence_offset": 10,
        "lost_offsets": 5,
        "lost_records": 4,
        "removed_committed": 3,
        "lost_by_transaction": SPLIT,
    }
    (start,) = started(verdicts=[verdict(Verdict.COMMITTED_LOSS, **losing)]).values()
    assert (start.outcome, start.because, start.first_offset) == (StartOutcome.COPY_FIRST, (StartBecause.TRUNCATES,), 10)
    assert (start.lost_offsets, start.lost_records, start.lost_committed, start.lost_by_transaction) == (5, 4, 3, SPLIT)
    assert started(verdicts=[verdict(Verdict.COMMITTED_LOSS, **(losing | {"already_truncated": True}))]) == {}
    assert started(verdicts=[verdict(Verdict.STALE_TAIL, **(losing | {"lost_offsets": 0}))]) == {}
    unknown = started(verdicts=[verdict(Verdict.STALE_TAIL, **(losing | {"lost_offsets": None, "lost_records": None}))])[2]
    assert (unknown.outcome, unknown.lost_records) == (StartOutcome.COPY_FIRST, None)


@pytest.mark.parametrize("code", [Verdict.COMMITTED_LOSS, Verdict.STALE_TAIL])
def test_a_truncation_into_a_batch_of_the_leader_ends_the_fetches(code: Verdict) -> None:
    cut = verdict(code, truncation_offset=50, divergence_offset=28, lost_offsets=35, lost_records=35)
    assert because(verdicts=[cut], found=[finding(code, fetcher_fails=False)]) == (StartBecause.TRUNCATES,)
    assert set(because(verdicts=[cut], found=[finding(code, fetcher_fails=True)])) == {StartBecause.TRUNCATES, StartBecause.CANNOT_FOLLOW}
    done = replace(cut, already_truncated=True)
    assert started(verdicts=[done], found=[finding(code, fetcher_fails=True)]) == {}, "whether it fetches by now its log says"


def test_a_log_without_a_common_offset_is_given_up_as_a_whole() -> None:
    given_up = [verdict(Verdict.INCONCLUSIVE, cause=Cause.NO_COMMON_RANGE, restart_offset=30, lost_offsets=12, lost_records=12)]
    stopped = [row(ReplicaLog, **PLACE, broker_id=2, state="current", broker_ran=False)]
    start = started(verdicts=given_up, logs=stopped)[2]
    assert (start.because, start.outcome, start.lost_records) == ((StartBecause.EMPTIES,), StartOutcome.COPY_FIRST, 12)
    assert because(verdicts=given_up) == (StartBecause.NOT_COMPARED,), "of a broker that ran a later copy may tell"
    fenced = [row(ReplicaRole, **PLACE, broker_id=2, fenced=True)]
    assert because(verdicts=given_up, roles=fenced) == (StartBecause.EMPTIES,), "of one that crashed no copy tells more"
    runs = [replace(one, broker_ran=True) for one in stopped]
    assert because(verdicts=given_up, roles=fenced, logs=runs) == (StartBecause.NOT_COMPARED,)
    stuck = finding(PartitionCode.FETCH_FAILS_FOREVER)
    assert because(verdicts=given_up, found=[stuck]) == (StartBecause.CANNOT_FOLLOW, StartBecause.EMPTIES), (
        "not of one that fetches nothing"
    )
    assert because(verdicts=[verdict(Verdict.INCONCLUSIVE, cause=Cause.LEADER_COPIED_EARLIER)]) == (StartBecause.NOT_COMPARED,)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (Verdict.LOG_MATCHING_VIOLATION, StartBecause.STAYS_DIVERGED),
        (Verdict.CANNOT_REJOIN, StartBecause.CANNOT_FOLLOW),
        (Verdict.CONTENT_MISMATCH, StartBecause.OTHER_RECORDS),
        (Verdict.COMPACTION_DIFFERS, StartBecause.OTHER_RECORDS),
        (Verdict.INCONCLUSIVE, StartBecause.NOT_COMPARED),
        (Verdict.UNREADABLE, StartBecause.DOES_NOT_LOAD),
        (Verdict.STALE_TOPIC_ID, StartBecause.BECOMES_STRAY),
    ],
)
def test_verdicts(code: Verdict, expected: StartBecause) -> None:
    start = started(verdicts=[verdict(code)])[2]
    assert (start.because, start.outcome) == ((expected,), OUTCOME_OF[expected])


@pytest.mark.parametrize(
    ("code", "known", "expected"),
    [
        (PartitionCode.TORN_AFTER_CLEAN_STOP, {}, StartBecause.TORN_END),
        (PartitionCode.ENDS_BELOW_HIGH_WATERMARK, {}, StartBecause.SHORT_COPY),
        (PartitionCode.FETCH_FAILS_FOREVER, {}, StartBecause.CANNOT_FOLLOW),
        (PartitionCode.WILL_BECOME_STRAY, {"is_certain": True}, StartBecause.BECOMES_STRAY),
        (PartitionCode.WILL_BECOME_STRAY, {"is_certain": False}, StartBecause.MAY_BECOME_STRAY),
        (Verdict.UNREADABLE, {"about": "leader"}, StartBecause.LEADER_DAMAGED),
    ],
)
def test_findings(code: str, known: dict[str, Any], expected: StartBecause) -> None:
    start = started(verdicts=[verdict(Verdict.IDENTICAL)], found=[finding(code, **known)])[2]
    assert (start.because, start.outcome) == ((expected,), OUTCOME_OF[expected])


def test_a_truncation_takes_a_torn_end_along() -> None:
    torn = [finding(PartitionCode.TORN_AFTER_CLEAN_STOP)]
    cut: dict[str, Any] = {"truncation_offset": 10, "divergence_offset": 10, "removed_offsets": 5, "lost_offsets": 5}

    def with_torn(**known: Any) -> tuple[str, ...]:
        return because(verdicts=[verdict(Verdict.STALE_TAIL, **(cut | known))], found=torn)

    assert with_torn() == (StartBecause.TRUNCATES,)
    assert with_torn(removed_offsets=0, lost_offsets=0) == (StartBecause.TORN_END,), "a cut at the log end takes nothing"
    assert with_torn(removed_offsets=None) == (StartBecause.TORN_END, StartBecause.TRUNCATES)
    guessed = {"leader_source": INFERRED, "inferred_because": str(InferredBecause.NO_METADATA)}
    assert StartBecause.TORN_END in with_torn(**guessed)


def test_what_is_set_aside_and_fetched_again_is_safe() -> None:
    harmless = finding(PartitionCode.WILL_BECOME_STRAY, is_certain=True, severity="warning")
    assert started(verdicts=[verdict(Verdict.LAGGING)], found=[harmless]) == {}


def test_what_would_be_truncated_of_a_log_that_is_set_aside_is_set_aside() -> None:
    losing = {"truncation_offset": 10, "divergence_offset": 10, "lost_offsets": 4, "lost_records": 4, "lost_by_transaction": SPLIT}
    cut = verdict(Verdict.STALE_TAIL, **losing)
    start = started(verdicts=[cut], found=[finding(PartitionCode.WILL_BECOME_STRAY, is_certain=True, severity="warning")])[2]
    assert start.because == (StartBecause.BECOMES_STRAY, StartBecause.SETS_ASIDE)
    assert (start.first_offset, start.lost_records, start.lost_by_transaction) == (None, 4, SPLIT)
    perhaps = finding(PartitionCode.WILL_BECOME_STRAY, is_certain=False, severity="warning")
    assert because(verdicts=[cut], found=[perhaps]) == (StartBecause.MAY_BECOME_STRAY, StartBecause.TRUNCATES)


def test_the_only_copy_is_not_set_aside_uncopied() -> None:
    unread, read = row(SetAsideLog, held_alone_offsets=7), row(SetAsideLog, held_alone_offsets=5, held_alone_by_transaction=SPLIT)

    def start(*logs: SetAsideLog) -> ReplicaStart:
        goes = finding(PartitionCode.WILL_BECOME_STRAY, is_certain=True, set_aside=logs)
        return started(verdicts=[verdict(Verdict.IDENTICAL)], found=[goes])[2]

    found = start(read, unread)
    assert found.because == (StartBecause.BECOMES_STRAY, StartBecause.SETS_ASIDE)
    assert (found.outcome, found.lost_offsets, found.lost_records) == (StartOutcome.REPAIR_FIRST, 12, None)
    assert found.lost_by_transaction is None
    assert (start(read, read).lost_records, start(read, read).lost_by_transaction) == (8, SPLIT + SPLIT)


def test_a_leader_that_is_a_guess_decides_nothing() -> None:
    guessed = {"leader_source": INFERRED, "inferred_because": str(InferredBecause.NO_METADATA)}
    assert because(verdicts=[verdict(Verdict.LAGGING, **guessed)]) == (StartBecause.LEADER_GUESSED,)
    assert started(verdicts=[verdict(Verdict.IDENTICAL, **guessed)]) == {}


def test_what_could_not_be_read_is_not_known_to_be_broken() -> None:
    unread = row(ReportedProblem, broker_id=2, code="cannot-read")
    assert because(verdicts=[verdict(Verdict.UNREADABLE)], problems=[unread]) == (StartBecause.NOT_READ,)


def test_a_replica_that_the_input_lacks_is_not_known() -> None:
    assigned = [row(ReplicaRole, **PLACE, broker_id=broker, position=broker) for broker in (1, 2)]
    start = started(logs=LOGS[:1], roles=assigned, verdicts=[verdict(Verdict.INCONCLUSIVE, cause=Cause.NOT_COLLECTED)])[2]
    assert start.because == (StartBecause.MISSING, StartBecause.NOT_COMPARED)


def test_recovery_truncates_what_nobody_else_holds() -> None:
    start = started(verdicts=[verdict(Verdict.UNREADABLE)], found=[finding(Verdict.UNREADABLE)], recovered={2: (8, 12)})[2]
    assert (start.because, start.first_offset, start.lost_offsets) == ((StartBecause.RECOVERY_TRUNCATES,), 8, 4)


def test_recovery_truncates_whatever_else_is_found_of_the_replica() -> None:
    """Of whoever is to lead, and beside a verdict of its own."""
    start = started(verdicts=[verdict(Verdict.LAGGING)], recovered={2: (8, 12)})[2]
    assert (start.because, start.first_offset, start.lost_offsets) == ((StartBecause.RECOVERY_TRUNCATES,), 8, 4)
    assert 2 not in started(verdicts=[verdict(Verdict.STALE_TAIL, already_truncated=True)], recovered={2: (8, 12)}), "since done"


def test_what_is_acknowledged_says_so() -> None:
    known = AcknowledgedBy(
        state=str(AckState.ACKNOWLEDGED), reason="r", who="w", until=date(2030, 1, 1), severity="error", at_most_records=9, line=1
    )
    seen = finding(PartitionCode.TORN_AFTER_CLEAN_STOP, acknowledgement=known)
    assert started(found=[seen])[2].is_acknowledged is True
    assert started(found=[seen, finding(PartitionCode.FETCH_FAILS_FOREVER)])[2].is_acknowledged is False


class TestNobodyLeads:
    offline = finding(PartitionCode.OFFLINE_PARTITION, broker_id=-1, isr=(2,), elr=())

    def choices(self, *, lost: int = 0, unread: int = 0, **best: Any) -> list[WhatIfLeader]:
        """Broker 1 is the best; broker 2 would lose 9."""
        cut = row(
            FollowerCut,
            broker_id=2,
            catches_up=True,
            still_diverged=False,
            truncation_offset=5,
            lost_offsets=lost,
            lost_records=lost,
            lost_by_transaction=SPLIT,
        )
        first = {"candidate_id": 1, "rank": 1, "election": "unclean", "unread_replicas": unread, "follower_cuts": (cut,)}
        other = {"candidate_id": 2, "rank": 2, "election": "clean", "lost_offsets": 9, "lost_records": 9, "in_isr": True}
        return [row(WhatIfLeader, **PLACE, **(first | best)), row(WhatIfLeader, **PLACE, **other)]

    def test_a_member_of_the_isr_that_loses_more_waits_for_the_one_that_loses_less(self) -> None:
        found = started(choices=self.choices(), found=[self.offline])
        assert (found[2].because, found[2].outcome, found[2].leader_id) == ((StartBecause.OTHER_LOSES_LESS,), StartOutcome.ORDER, 1)
        assert (found[1].outcome, found[1].election) == (StartOutcome.SAFE, "unclean")

    def test_who_does_not_lead_by_itself_may_start_at_any_time(self) -> None:
        outside = finding(PartitionCode.OFFLINE_PARTITION, broker_id=-1, isr=(1,), elr=())
        assert 2 not in started(choices=self.choices(), found=[outside])
        unclean = [row(ReplicaRole, **PLACE, broker_id=2, position=1, unclean_leader_election=True)]
        assert because(choices=self.choices(), found=[outside], roles=unclean) == (StartBecause.OTHER_LOSES_LESS,)

    def test_what_it_alone_holds_is_copied_besides(self) -> None:
        start = started(choices=self.choices(lost=4), found=[self.offline])[2]
        assert start.because == (StartBecause.TRUNCATES, StartBecause.OTHER_LOSES_LESS)
        assert (start.outcome, start.first_offset, start.lost_records) == (StartOutcome.COPY_FIRST, 5, 4)
        assert start.lost_by_transaction == SPLIT

    def test_an_election_that_nobody_can_judge(self) -> None:
        assert because(choices=self.choices(unread=1), found=[self.offline]) == (StartBecause.ELECTION_UNKNOWN,)
        assert because(choices=[], found=[self.offline]) == (StartBecause.ELECTION_UNKNOWN,)

    @pytest.mark.parametrize("is_certain", [True, False])
    def test_nobody_is_elected_whose_log_is_set_aside(self, is_certain: bool) -> None:
        goes = finding(PartitionCode.WILL_BECOME_STRAY, broker_id=1, is_certain=is_certain)
        found = started(choices=self.choices(), found=[self.offline, goes])
        assert {one.election for one in found.values()} == {None}
        assert all(StartBecause.ELECTION_UNKNOWN in one.because for one in found.values())

    def test_the_election_is_that_of_the_choice(self) -> None:
        for election in ("clean", "unclean"):
            assert started(choices=self.choices(election=election), found=[self.offline])[1].election == election


def test_every_reason_has_an_outcome() -> None:
    assert set(OUTCOME_OF) == set(StartBecause)


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        ("sample/clean-in-sync", {1: "safe", 2: "safe", 3: "safe"}),
        ("sample/leader-trimmed", {1: "safe", 2: "copy-first", 3: "safe"}),
        ("sample/kafka-1.1.1-kip279-scenario-1-all", {1: "safe", 2: "repair-first"}),
    ],
)
def test_brokers_of_real_clusters(root: str, expected: dict[int, str]) -> None:
    done = triage((str(DATA / root),), Settings(), tell=lambda _event: None)
    rows = done.tables.rows("broker_starts", BrokerStart)
    assert {one.broker_id: one.outcome for one in rows} == expected
    of_replicas = in_process.audit(DATA / root)["replica_starts"]
    for one in rows:
        mine = [start for start in of_replicas if start["broker_id"] == one.broker_id]
        assert sum(one.outcomes.values()) == one.replicas
        assert one.lost_records == sum(start["lost_records"] or 0 for start in mine)


def test_the_split_of_a_broker_counts_what_is_not_split_as_unknown() -> None:
    known = {"outcome": "copy-first", "because": ("truncates",), "lost_offsets": 4, "lost_records": 4}
    starts = [
        row(ReplicaStart, topic="t", partition=at, broker_id=2, lost_by_transaction=split, **known)
        for at, split in enumerate((SPLIT, SPLIT, None))
    ]
    rows = [as_dict(one) | {"run_id": "run", "cluster_id": "c"} for one in starts]
    table = pa.Table.from_pylist(rows, schema=schema_of(REPLICA_STARTS))
    (found,) = broker_starts(MemoryTables({"replica_starts": table}), "run")
    assert (found.lost_records, found.lost_by_transaction) == (12, SPLIT + SPLIT + RecordsByTransaction(unknown=4))
    older = MemoryTables({"replica_starts": table.drop_columns(["lost_by_transaction"])})
    assert [one.lost_by_transaction for one in older.rows("replica_starts", ReplicaStart, run_id="run")] == [None] * 3
    assert broker_starts(older, "run")[0].lost_by_transaction == RecordsByTransaction(unknown=12)


def test_a_broker_that_was_copied_twice_is_not_known(tmp_path: Path) -> None:
    shutil.copytree(DATA / "sample" / "clean-in-sync", tmp_path / "c")
    shutil.copytree(tmp_path / "c" / "broker-1", tmp_path / "c" / "broker-1.bak")
    done = triage((str(tmp_path / "c"),), Settings(), tell=lambda _event: None)
    rows = done.tables.rows("broker_starts", BrokerStart)
    assert {one.broker_id: one.outcome for one in rows} == {1: "unknown", 2: "safe", 3: "safe"}
    assert rows[0].because == {str(StartBecause.COPIED_TWICE): 1}


def _starts(root: Path) -> dict[int, tuple[str, dict[str, int]]]:
    done = triage((str(root),), Settings(), tell=lambda _event: None)
    return {one.broker_id: (one.outcome, dict(one.because)) for one in done.tables.rows("broker_starts", BrokerStart)}


def test_two_brokers_with_one_directory_id_are_not_two_copies(tmp_path: Path) -> None:
    root = tmp_path / "c"
    shutil.copytree(DATA / "sample" / "clean-in-sync", root)
    metas = [next(root.glob(f"broker-{broker}/*/meta.properties")) for broker in (1, 3)]
    ids = [next(line for line in meta.read_text().splitlines() if line.startswith("directory.id=")) for meta in metas]
    metas[1].write_text(metas[1].read_text().replace(ids[1], ids[0]))
    shared = ("unknown", {str(StartBecause.SAME_DIRECTORY_ID): 1})
    assert _starts(root) == {1: shared, 2: ("safe", {}), 3: shared}


def test_a_log_of_another_broker_decides_nothing_about_a_start(tmp_path: Path) -> None:
    root = tmp_path / "c"
    shutil.copytree(DATA / "sample" / "clean-in-sync", root)
    line = "INFO [Broker id=3] Leader t-0 with topic id Some(x) starts at leader epoch 1 (kafka.cluster.Partition)"
    (root / "broker-1" / "server.log").write_text(f"[2026-11-21 05:49:49,584] {line}\n")
    assert list(_starts(root).values()) == [("safe", {})] * 3


def test_an_index_that_misleads_is_no_unread_file(tmp_path: Path) -> None:
    for broker in (1, 2):
        directory = replica(tmp_path, broker, {0: filled(0, 30)}, reached=30)
        stop(tmp_path, broker, cleanly=True)
    (directory / "00000000000000000000.timeindex").write_bytes((1).to_bytes(8) + (29).to_bytes(4))  # no record is newer than that
    metadata(tmp_path, 1, [1, 2], down=[1, 2])
    because = _starts(tmp_path)[2][1]
    assert (str(StartBecause.MISLED_BY_INDEX) in because, str(StartBecause.NOT_READ) in because) == (True, False)
