"""Every verdict, finding code, cause and case of a round is known to whatever shows it: a new one fails here until each of them does."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from replica_audit.notebook import charts
from replica_audit.protocol.verdict.partition_findings import IncidentKind, PartitionCode
from replica_audit.protocol.verdict.verdict import SEVERITIES, Verdict
from replica_audit.report.document import Sentence
from replica_audit.report.facts.assessment import CODES_BY_LOSS, VERDICTS_BY_LOSS
from replica_audit.report.facts.explanation import Explained, ExplainedStep, Explanation, explain
from replica_audit.report.facts.question import Question
from replica_audit.report.page import plain_words
from replica_audit.report.page.page_data import rows_json
from replica_audit.report.page.partition import section
from replica_audit.report.page.picture import in_few_words
from replica_audit.report.sections import exchange
from replica_audit.report.text import blocks, findings_text
from replica_audit.report.text import plain_text as summary_text
from replica_audit.report.text.explanation_text import render
from replica_audit.report.text.json_report import finding_json
from replica_audit.rows import REPLICA_VERDICTS, TRUNCATION_POINTS
from replica_audit.rows.codes import Case, Cause, EpochRequest, FallsBack, OutOfRange, Protocol, Severity
from replica_audit.rows.findings import RunFinding
from tests.page.runs import cluster, finding, page_data
from tests.protocol.logs import compare, replica
from tests.report.audited import KEYS, Row, TablesInMemory, tables_of
from tests.support.rows import sparse

DOCS = Path(__file__).resolve().parents[2] / "docs"
VERDICTS_DOC = " ".join((DOCS / "verdicts.md").read_text(encoding="utf-8").split())
NOT_KNOWN = "Unknown: the input"
ASKED = Question(topic="orders", partition=0)


def tables(**of_verdict: Any) -> dict[str, list[Row]]:
    """A follower that diverges and is cut, with another verdict written over its own."""
    leader = replica(1, [(1, 0, 20), (3, 21, 30)], high_watermark=31)
    made = tables_of(compare(leader, replica(2, [(1, 0, 10), (2, 11, 25)], high_watermark=11, alive=False), protocol=Protocol.KIP_279))
    made["replica_verdicts"][0] |= of_verdict
    return made


def explained(**of_verdict: Any) -> Explained:
    return explain(TablesInMemory(tables(**of_verdict)), ASKED)


def follower(**of_verdict: Any) -> Explanation:
    return explained(**of_verdict).followers[0]


def of(verdict: Verdict) -> dict[str, Any]:
    return {"verdict": str(verdict), "severity": str(SEVERITIES[verdict]), "cause": "not collected" if verdict == "inconclusive" else None}


@pytest.mark.parametrize("verdict", Verdict)
class TestAVerdict:
    def test_in_the_text(self, verdict: Verdict) -> None:
        one = finding(verdict=str(verdict), severity=str(SEVERITIES[verdict]), cause="not collected" if verdict == "inconclusive" else None)
        assert findings_text.loses(one)
        shown = summary_text.render(page_data(one, clusters=(cluster(verdicts={str(verdict): 1}),)).report)
        assert f"{SEVERITIES[verdict]}: {verdict}" in shown
        assert f"{verdict} 1" in shown

    def test_on_the_page(self, verdict: Verdict) -> None:
        data = page_data(finding(**of(verdict)), clusters=(cluster(verdicts={str(verdict): 1}),))
        assert verdict in plain_words.MEANINGS
        assert f'"{verdict}"' in rows_json(data)
        news = plain_words.headline(data)
        if SEVERITIES[verdict] is not Severity.NONE:
            assert news.severity == SEVERITIES[verdict]
            assert not news.sentence.startswith("Nothing"), "its own news"
        untold = {Verdict.INCONCLUSIVE}
        assert plain_words.who_is_right(follower(**of(verdict))).startswith(NOT_KNOWN) == (verdict in untold)
        shown = section(data.report, explained(**of(verdict)), "orders-0", "")
        if SEVERITIES[verdict] is Severity.NONE:
            assert shown.others == (f"Broker 2: {verdict}.",)
        else:
            assert (shown.followers[0].verdict, shown.followers[0].severity) == (verdict, SEVERITIES[verdict])

    def test_as_json(self, verdict: Verdict) -> None:
        assert str(verdict) in VERDICTS_BY_LOSS
        assert str(verdict) in CODES_BY_LOSS
        row = {"code": str(verdict), "broker_id": 2, "leader_id": 1, "cluster_id": "c", "summary": "why"}
        assert finding_json(row)["verdict"] == verdict

    def test_explained(self, verdict: Verdict) -> None:
        assert f"{verdict} ({SEVERITIES[verdict]})" in render(explained(**of(verdict)))

    def test_in_the_notebook(self, verdict: Verdict) -> None:
        assert charts.VERDICTS.index(str(verdict)) == list(Verdict).index(verdict)
        rows = pd.DataFrame([{"cluster_id": "c", "follower_id": 2, "verdict": str(verdict)}])
        assert str(verdict) in str(charts.heatmap(rows, "first").to_dict())

    def test_in_the_document(self, verdict: Verdict) -> None:
        assert f"| `{verdict}` | {SEVERITIES[verdict]} |" in VERDICTS_DOC


@pytest.mark.parametrize("cause", Cause)
class TestACause:
    def test_in_the_text(self, cause: Cause) -> None:
        assert findings_text.loses(finding(verdict="inconclusive", severity="warning", cause=str(cause))) == cause

    def test_as_json(self, cause: Cause) -> None:
        row = {"code": "inconclusive", "broker_id": 2, "leader_id": 1, "cluster_id": "c", "summary": "why", "cause": str(cause)}
        assert finding_json(row)["cause"] == cause

    def test_in_the_documents(self, cause: Cause) -> None:
        assert f"| *{cause}* |" in VERDICTS_DOC
        assert str(cause) in comment(REPLICA_VERDICTS, "cause")


def other(code: PartitionCode) -> RunFinding:
    return sparse(
        RunFinding,
        cluster_id="c",
        code=str(code),
        severity="error",
        topic="orders",
        partition=0,
        broker_id=2,
        summary="so it is",
        status="new",
    )


def offline() -> RunFinding:
    unknown = dict.fromkeys(("leader_epoch", "isr", "elr", "last_leader_id", "leaderless_since", "cluster_stopped", "candidates"))
    return sparse(RunFinding, cluster_id="c", severity="error", topic="orders", partition=0, summary="nobody", status="new", **unknown)


@pytest.mark.parametrize("code", PartitionCode)
class TestAFindingCode:
    def found(self, code: PartitionCode) -> Any:
        is_offline = code is PartitionCode.OFFLINE_PARTITION
        shown: dict[str, Any] = {"offline": (offline(),)} if is_offline else {"others": (other(code),)}
        return page_data(**shown, leaders=() if is_offline else (other(code),), partition_codes={str(code): 1}, finding_count=1)

    def test_in_the_text(self, code: PartitionCode) -> None:
        shown = summary_text.render(self.found(code).report)
        assert "1 partition without a leader" in shown if code is PartitionCode.OFFLINE_PARTITION else f"so it is ({code})" in shown
        assert "cannot be read" not in shown, "it is not counted as a leader that cannot be read"

    def test_on_the_page(self, code: PartitionCode) -> None:
        news = plain_words.headline(self.found(code))
        assert news.severity == "error"
        assert not news.sentence.startswith("Nothing")
        if code is not PartitionCode.OFFLINE_PARTITION:
            assert f'"{code}"' in rows_json(self.found(code))

    def test_as_json(self, code: PartitionCode) -> None:
        assert str(code) in CODES_BY_LOSS
        row = {"code": str(code), "broker_id": -1, "leader_id": -1, "cluster_id": "c", "summary": "why"}
        assert (finding_json(row)["code"], finding_json(row)["verdict"]) == (code, None)

    def test_explained(self, code: PartitionCode) -> None:
        made = tables()
        if str(code) in set(map(str, IncidentKind)):
            of_log = {"broker_id": 2, "kind": str(code), "logged_at": None, "summary": "so it was", "path": "server.log", "line": 3}
            assert "so it was." in render(explain(TablesInMemory(made | {"logged_incidents": [KEYS | of_log]}), ASKED))
            return
        row = {"code": str(code), "severity": "error", "broker_id": 2, "summary": "so it is", "status": "new"}
        shown = explain(TablesInMemory(made | {"findings": [KEYS | row]}), ASKED)
        assert f"{code} (error)" in render(shown)
        page = section(page_data().report, shown, "orders-0", "")
        told = (
            page.offline
            if code is PartitionCode.OFFLINE_PARTITION
            else [one for one in page.told if isinstance(one, Sentence) and "so it is" in one.text]
        )
        assert told

    def test_a_finding_about_the_partition_names_no_broker(self, code: PartitionCode) -> None:
        row = {"code": str(code), "severity": "error", "broker_id": -1, "summary": "so it is", "status": "new"}
        shown = explain(TablesInMemory(tables() | {"findings": [KEYS | row]}), ASKED)
        assert "broker -1" not in render(shown)
        page = section(page_data().report, shown, "orders-0", "")
        said = [one.text for one in page.told if isinstance(one, Sentence)]
        assert not [text for text in (*said, *page.offline) if "-1" in text]

    def test_in_the_document(self, code: PartitionCode) -> None:
        assert f"| `{code}` |" in VERDICTS_DOC


def comment(table: Any, name: str) -> str:
    return next(str(column.comment) for column in table.columns if column.name == name)


@pytest.mark.parametrize("case", Case)
def test_the_case_of_a_round_in_words_and_pictures(case: Case) -> None:
    """Text and page (`StepWords`), the steps of the documents, the picture, the table's description."""
    one = follower()
    assert one.applied is not None
    words = exchange.StepWords(one, one.applied)
    is_fallback = case is Case.HIGH_WATERMARK
    step = ExplainedStep(
        case=case,
        log_end_offset=26,
        number=None if is_fallback else 1,
        because=FallsBack.UNDEFINED if is_fallback else None,
        requested_epoch=2,
        answered_epoch=1,
        answered_end_offset=21,
        own_epoch=1,
        own_end_offset=11,
        truncate_to=11,
        offset=11,
        out_of_range=OutOfRange.EPOCH if case.startswith("out-of-range") else None,
    )
    assert words.does(step)
    assert bool(words.answer(step)) != is_fallback
    assert all(words.rule(step)) if case is not Case.UNDEFINED else case not in exchange.RULES, "its fallback has the rule"
    asked, answer, _does = in_few_words(step)
    assert asked
    assert bool(answer) != is_fallback
    for protocol in (Protocol.KIP_101, Protocol.KIP_279):
        shown = replace(one, verdict=replace(one.verdict, protocol=str(protocol)))
        assert list(exchange.asked(shown, step))
    if not is_fallback:
        assert str(case) in comment(TRUNCATION_POINTS, "rounds")


@pytest.mark.parametrize("because", FallsBack)
def test_why_a_follower_falls_back_in_words(because: FallsBack) -> None:
    one = follower()
    assert one.applied is not None
    step = ExplainedStep(case=Case.HIGH_WATERMARK, log_end_offset=26, because=because, truncate_to=11, offset=11)
    assert all(exchange.StepWords(one, one.applied).rule(step))
    assert str(because) in comment(TRUNCATION_POINTS, "fallback")


@pytest.mark.parametrize("code", [*OutOfRange, *(request for request in EpochRequest if not request.startswith("list_offsets"))])
def test_codes_of_a_round_are_described(code: StrEnum) -> None:
    assert str(code) in comment(TRUNCATION_POINTS, "rounds")


def test_nothing_else_is_taken_for_a_verdict() -> None:
    assert set(findings_text.LOSES) < set(Verdict)
    assert blocks.MEANING.keys() == {0, 1, 2, 3}
