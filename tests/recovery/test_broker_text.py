"""The answer for one broker, and the first block of a summary, as people read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from replica_audit import cli
from replica_audit.report.sections.brokers import MOST, broker_items, replica_text, said_of
from replica_audit.rows.pairs import RecordsByTransaction
from replica_audit.rows.starts import OUTCOME_OF, BrokerStart, ReplicaStart, StartBecause, StartOutcome
from tests.recovery.blank_rows import row

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample"
NO_LOSS = {"lost_offsets": 0, "lost_records": 0, "lost_committed": 0, "lost_unknown": 0}


def broker(outcome: StartOutcome, *because: StartBecause, **known: object) -> BrokerStart:
    places = {"outcomes": {str(outcome): 1}, "because": {str(one): 1 for one in because}, "partitions": ("t-0",), "replicas": 1}
    rest = {"acknowledged": 0, "leads": 0, "leads_uncleanly": 0, "waits_for": (), "runs": False, "broker_id": 2}
    return row(BrokerStart, outcome=str(outcome), **(NO_LOSS | places | rest | known))


def test_every_reason_has_its_words() -> None:
    for one in StartBecause:
        if one not in (StartBecause.COPIED_TWICE, StartBecause.SAME_DIRECTORY_ID, StartBecause.MISLED_BY_INDEX):  # of no single replica
            replica = row(ReplicaStart, outcome="unknown", because=(str(one),), leader_id=1, broker_id=2)
            assert len(replica_text(replica)) > 10
        assert len(said_of(broker(OUTCOME_OF[one], one))) > 20


def test_what_is_not_known_is_never_nothing() -> None:
    told = said_of(broker(StartOutcome.COPY_FIRST, StartBecause.TRUNCATES, lost_unknown=1))
    assert "unknown number" in told
    assert " 0 " not in told
    assert "at least 4 records" in said_of(broker(StartOutcome.COPY_FIRST, StartBecause.TRUNCATES, lost_unknown=1, lost_records=4))


UNKNOWN = [one for one in StartBecause if OUTCOME_OF[one] is StartOutcome.UNKNOWN and one is not StartBecause.EMPTIES]


@pytest.mark.parametrize("reason", UNKNOWN)
def test_what_is_not_known_says_what_to_give(reason: StartBecause) -> None:
    told = said_of(broker(StartOutcome.UNKNOWN, reason))
    assert told.endswith("."), "a sentence of its own"
    assert len(told.split(". ")) == 2


def test_a_start_is_asked_about_once() -> None:
    unread = broker(StartOutcome.UNKNOWN, StartBecause.NOT_COMPARED, StartBecause.NOT_READ)
    assert said_of(unread).endswith("could not be read. Copy again what the input problems name.")
    assert "--partition" not in said_of(unread)


MIXED = RecordsByTransaction(committed=12, plain=10, aborted=5, open=3, markers=4)


@pytest.mark.parametrize(
    ("committed", "split", "said"),
    [
        (0, MIXED, "30 records and 4 transaction markers (12 of committed transactions, 10 plain, 5 aborted, 3 open)"),
        (
            34,
            MIXED,
            "30 records and 4 transaction markers (12 of committed transactions, 10 plain, 5 aborted, 3 open; 34 offsets committed)",
        ),
        (20, RecordsByTransaction(plain=34), "34 records (20 committed)"),
        (None, RecordsByTransaction(plain=34), "34 records (34 plain)"),
        (0, RecordsByTransaction(plain=30, unknown=4), "34 records (30 plain, 4 unknown)"),
        (0, RecordsByTransaction(markers=34), "34 transaction markers"),
        (20, None, "34 records (20 committed)"),
        (None, None, "34 records"),
    ],
)
def test_lost_records_by_transaction(committed: int | None, split: RecordsByTransaction | None, said: str) -> None:
    known = {"lost_records": 34, "lost_committed": committed, "lost_by_transaction": split, "first_offset": 8, "leader_id": 1}
    replica = row(ReplicaStart, outcome="copy-first", because=("truncates",), broker_id=2, **known)
    assert replica_text(replica) == f"truncates {said} from offset 8 on, which the leader does not hold (leader 1)"
    if committed is not None:
        broken = broker(
            StartOutcome.COPY_FIRST, StartBecause.TRUNCATES, lost_records=34, lost_committed=committed, lost_by_transaction=split
        )
        assert said_of(broken) == f"COPY FIRST: truncates {said} of t-0, which the leader does not hold"


def test_what_is_set_aside_is_not_truncated() -> None:
    known = {"lost_records": 34, "lost_by_transaction": MIXED}
    aside = broker(StartOutcome.REPAIR_FIRST, StartBecause.BECOMES_STRAY, StartBecause.SETS_ASIDE, **known)
    assert "nobody else holds 30 records and 4 transaction markers (12 of" in said_of(aside)
    both = broker(StartOutcome.REPAIR_FIRST, StartBecause.BECOMES_STRAY, StartBecause.SETS_ASIDE, StartBecause.TRUNCATES, **known)
    assert "removes 30 records and 4 transaction markers" in said_of(both)
    replica = row(ReplicaStart, outcome="repair-first", because=("becomes-stray", "sets-aside-the-only-copy"), broker_id=2, **known)
    assert "; nobody else holds 30 records and 4 transaction markers (12 of committed transactions," in replica_text(replica)


def test_who_repairs_copies_what_would_be_lost() -> None:
    both = broker(StartOutcome.REPAIR_FIRST, StartBecause.STAYS_DIVERGED, StartBecause.TRUNCATES, lost_records=3)
    assert said_of(both).startswith("COPY, THEN REPAIR: ")
    assert said_of(broker(StartOutcome.REPAIR_FIRST, StartBecause.STAYS_DIVERGED)).startswith("REPAIR FIRST: ")


def test_what_waits_and_what_leads_says_so() -> None:
    waits = broker(StartOutcome.ORDER, StartBecause.OTHER_LOSES_LESS, waits_for=(1, 3))
    assert said_of(waits).endswith("; start it after brokers 1, 3 lead")
    leads = broker(StartOutcome.SAFE, leads=3, leads_uncleanly=1)
    assert said_of(leads) == (
        "safe; it leads 2 partitions that nobody leads, by itself and is to be elected, uncleanly, for 1 partition that nobody leads"
    )


def test_what_is_acknowledged_says_so() -> None:
    known = broker(StartOutcome.REPAIR_FIRST, StartBecause.STAYS_DIVERGED, acknowledged=1)
    assert said_of(known).startswith("REPAIR FIRST (acknowledged): ")


def test_the_safe_brokers_of_a_large_cluster_are_counted() -> None:
    many = [broker(StartOutcome.SAFE, broker_id=number) for number in range(MOST)]
    many.append(broker(StartOutcome.UNKNOWN, StartBecause.NOT_COMPARED, broker_id=99))
    assert [text for _head, text in broker_items(many)][1:] == [f"{MOST} other brokers: safe"]


@pytest.mark.parametrize(
    ("root", "number", "code", "said"),
    [
        ("leader-trimmed", 2, 1, "May broker 2 be started? Not before its directories are copied."),
        ("leader-trimmed", 1, 0, "May broker 1 be restarted? Yes."),
        ("kafka-1.1.1-kip279-scenario-1-all", 2, 1, "May broker 2 be started? Not as it is."),
    ],
)
def test_triage_answers_for_one_broker(capsys: pytest.CaptureFixture[str], root: str, number: int, code: int, said: str) -> None:
    assert cli.main(["triage", "--input", str(SAMPLE / root), "--broker", str(number)]) == code
    shown = capsys.readouterr().out
    assert shown.startswith(said)
    assert f"\nExit code {code}: " in shown


def test_a_broker_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["triage", "--input", str(SAMPLE / "leader-trimmed"), "--broker", "9"]) == 2
    assert "has no such broker; it has: 1, 2, 3" in capsys.readouterr().err
    assert cli.main(["triage", "--broker", "1"]) == 2
    assert "give one with --cluster" in capsys.readouterr().err
