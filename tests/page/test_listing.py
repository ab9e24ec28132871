"""What a page says and holds, looked at without a browser: the news, the rows, the policy, the size."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.errors import visible
from replica_audit.protocol.verdict.verdict import SEVERITIES, Verdict
from replica_audit.report.page import plain_words
from replica_audit.report.page.page import BUDGET, render, worst_partitions
from replica_audit.report.page.page_data import HOLE, Losses, PageData, rows_json
from replica_audit.report.page.partition import anchors
from replica_audit.report.page.plain_words import MEANINGS, headline
from replica_audit.rows.codes import Severity
from replica_audit.rows.findings import RunFinding
from tests.page.runs import HOSTILE, cluster, finding, page_data
from tests.support.rows import sparse

LOST = {"committed_loss": 3, "stale_tail": 1, "identical": 2}


def unexplained(_key: Any) -> Any:
    raise AssertionError("no partition was to be drawn")


def of(verdicts: dict[str, int], **changed: Any) -> PageData:
    """A run with these verdicts; what is changed besides is of the cluster, or of the page."""
    own = {name: changed.pop(name) for name in ("inferred_leaders", "affected_groups", "records_unread") if name in changed}
    return page_data(clusters=(cluster(verdicts=verdicts, **own),), **changed)


class TestTheNews:
    @pytest.mark.parametrize(
        ("data", "severity", "sentence"),
        [
            (
                of(LOST, losses=Losses(partitions=2, offsets=1234), affected_groups=1),
                "critical",
                "Committed records are missing from the leader: 1,234 offsets in 2 partitions, and 1 consumer group is affected.",
            ),
            (
                of(LOST, losses=Losses(partitions=1, offsets=1, at_least=True)),
                "critical",
                "Committed records are missing from the leader: at least 1 offset in 1 partition.",
            ),
            (
                of({"log_matching_violation": 1, "stale_tail": 4}),
                "critical",
                "Silent divergence: 1 replica conflicts with the leader and will stay diverged.",
            ),
            (
                of({"stale_tail": 2, "inconclusive": 1}),
                "error",
                "2 replicas will truncate records; whether they were committed is unknown.",
            ),
            (of({"unreadable": 1}), "error", "1 replica cannot be read the way a broker reads it."),
            (of({"epoch_table_only": 1}), "warning", "1 replica: the epoch table contradicts the log; no record is lost now."),
            (of({"inconclusive": 2, "identical": 4}), "warning", "Unknown: 2 replicas could not be compared."),
            (of({"identical": 3, "lagging": 1}), "none", "Nothing found: 4 replicas compared with their leaders, 0 inconclusive."),
            (of({"identical": 1}, inferred_leaders=1), "warning", "Nothing found: 1 replica compared with its leader, 0 inconclusive."),
            (of({"identical": 1}, records_unread=1), "warning", "Nothing found: 1 replica compared with its leader, 0 inconclusive."),
            (of({}), "error", "Nothing is known: no follower was in the input."),
            (of({}, exit_code=2), "error", "Nothing is known: no input could be read."),
        ],
    )
    def test_the_worst_comes_first(self, data: PageData, severity: str, sentence: str) -> None:
        found = headline(data)
        assert (found.severity, found.sentence) == (severity, sentence)

    def test_then_everything_else(self) -> None:
        data = of(LOST | {"inconclusive": 1}, losses=Losses(partitions=3, offsets=9), inferred_leaders=2, records_unread=3, problem_count=1)
        assert headline(data).more == (
            "1 replica will truncate records; whether they were committed is unknown.",
            "Unknown: 1 replica could not be compared.",
            "Of 2 pairs the leader is a guess: do not trust identical, consistent or lagging there.",
            "Records of 3 replicas were not compared, for the input does not hold them.",
            "1 input problem: listed below.",
        )

    def test_a_leader_that_cannot_be_read_is_no_good_news(self) -> None:
        leader = sparse(
            RunFinding,
            cluster_id="c",
            code="unreadable",
            severity="error",
            topic="t",
            partition=0,
            broker_id=1,
            summary="the leader itself: x",
            status="new",
        )
        found = headline(of({"inconclusive": 1}, leaders=(leader,)))
        assert found.severity == "error"
        assert "1 leader cannot be read." in (found.sentence, *found.more)


class TestTheRows:
    def test_hold_what_the_findings_say(self) -> None:
        leader = sparse(
            RunFinding,
            cluster_id="c",
            code="unreadable",
            severity="error",
            topic="t",
            partition=7,
            broker_id=3,
            summary="the leader itself: bad",
            status="new",
        )
        first = finding(verdict="committed_loss", severity="critical", restart_offset=4, truncation_offset=None)
        last = finding(
            verdict="inconclusive", severity="warning", removed_records=None, reason="not collected: 007 and 12345678901234567890"
        )
        rows = list(decoded(page_data(first, last, leaders=(leader,), statuses=("new", ""))))
        assert [row["verdict"] for row in rows] == ["committed_loss", "unreadable", "inconclusive"]
        assert rows[0] | {"restart": 4, "cut": None, "status": "new", "reason": first.row.reason} == rows[0]
        assert rows[1] | {"leader": 3, "follower": -1, "partition": 7, "reason": "the leader itself: bad"} == rows[1]
        assert rows[2] | {"records": None, "status": "", "reason": last.row.reason} == rows[2]

    @given(st.text(), st.text())
    def test_any_text_comes_back_and_is_harmless(self, reason: str, topic: str) -> None:
        reason, topic = (text.encode("utf-8", "replace").decode() for text in (reason, topic))
        text = rows_json(page_data(finding(reason=reason, topic=topic)))
        assert text.isascii()
        assert not set("<>&") & set(text)
        (row,) = decoded(page_data(finding(reason=reason, topic=topic)))
        assert (row["reason"], row["topic"]) == (visible(reason.replace(HOLE, "?")), visible(topic))

    def test_a_sentence_is_kept_once(self) -> None:
        data = page_data(*(finding(partition=n, reason=f"truncates to {n}: offsets {n}..{n + 4} are not known") for n in range(100)))
        assert len(json.loads(rows_json(data))["sentences"]) == 1

    def test_ten_thousand_findings_fit_into_two_megabytes(self) -> None:
        found = [
            finding(
                topic=f"some-team.some-service.events-{n // 20}",
                partition=n % 20,
                divergence_offset=7_000_000_000 + n,
                truncation_offset=7_000_000_000 + n,
                reason=f"truncates to {7_000_000_000 + n}: whether offsets up to {7_000_000_100 + n} were committed is unknown",
            )
            for n in range(10_000)
        ]
        made = render(page_data(*found), [], unexplained).encode()
        assert len(made) < BUDGET < 2_000_000
        assert b"some-team.some-service.events-499" in made


def test_only_the_page_s_own_script_and_style_may_run() -> None:
    made = render(page_data(finding(topic=HOSTILE)), [], unexplained)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', made)
    assert policy
    said = policy[1].replace("&#39;", "'")
    assert said.startswith("default-src 'none'; img-src data:; ")
    assert "unsafe" not in said
    (style,) = re.findall(r"<style>(.*?)</style>", made, re.DOTALL)
    (script,) = re.findall(r"<script>(.*?)</script>", made, re.DOTALL)
    for text in (style, script):
        assert f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" in said
    assert not re.search(r'(src|href)="(?!#|data:,)', made)
    assert " style=" not in made
    assert "onerror=" not in made.replace("onerror=\\", "").replace("onerror=&#34;", "")


def test_every_verdict_has_a_meaning() -> None:
    assert set(MEANINGS) == set(Verdict)


def test_anchors_are_plain_where_they_can_be() -> None:
    names = [("east", "orders-0"), ("west", "orders-0"), ("east", "audit-1"), ("east", "audit-1")]
    assert anchors(names) == {
        ("east", "orders-0"): "east/orders-0",
        ("west", "orders-0"): "west/orders-0",
        ("east", "audit-1"): "audit-1",
    }


def test_partitions_are_drawn_once_worst_first() -> None:
    data = page_data(finding(partition=3), finding(partition=1), finding(partition=3, follower_id=4), finding(partition=2))
    assert [key.name for key in worst_partitions(data, 2)] == ["orders-3", "orders-1"]


def decoded(data: PageData) -> list[dict[str, Any]]:
    """The rows as a page's script reads them."""
    read = json.loads(rows_json(data))
    made = []
    for row in read["rows"]:
        reason = read["sentences"][row[13]]
        for number in row[14]:
            reason = reason.replace(HOLE, str(number), 1)
        made.append(
            {
                "severity": read["severities"][row[0]],
                "verdict": read["verdicts"][row[1]],
                "cluster": read["clusters"][row[2]][0],
                "topic": read["topics"][row[3]],
                **dict(zip(("partition", "leader", "follower", "parts", "cut", "restart", "records", "committed"), row[4:12], strict=True)),
                "status": read["statuses"][row[12]],
                "reason": reason,
            }
        )
    return made


def test_no_finding_leaves_the_headline_without_a_word() -> None:
    """Else a run whose only findings are of that verdict would read as clean."""
    loud = {verdict for verdict, severity in SEVERITIES.items() if severity is not Severity.NONE}
    told = {*plain_words._SENTENCES, Verdict.COMMITTED_LOSS}
    assert not loud - told
