"""Pictures of any two replicas: everything lies on the paper, and stands at the offsets that the tables tell."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given

from replica_audit.protocol.comparison.pair import Comparison
from replica_audit.report.facts.explanation import Explained, explain
from replica_audit.report.facts.question import Question
from replica_audit.report.facts.run_report import PartitionPlace
from replica_audit.report.page.page import render
from replica_audit.report.page.picture import NARROW, WIDE, Box, Paper, Picture, picture
from replica_audit.report.page.plain_words import in_short, who_is_right
from tests.page.runs import cluster, finding, page_data
from tests.protocol.lineages import comparisons
from tests.protocol.logs import compare, replica
from tests.report.audited import KEYS, Row, TablesInMemory, tables_of

ASKED = Question(topic="orders", partition=0)


def explained(tables: dict[str, list[Row]]) -> Explained:
    return explain(TablesInMemory(tables), ASKED)


def bars(made: Picture) -> list[Box]:
    return [box for box in made.boxes if "epoch" in box.css.split()]


@given(comparisons())
def test_everything_lies_on_the_paper(c: Comparison) -> None:
    found = explained(tables_of(c))
    for paper in (WIDE, NARROW):
        made = picture(found, paper)
        assert made is not None
        for box in made.boxes:
            assert 0 <= box.x <= box.x + box.width <= paper.width
            assert 0 <= box.y <= box.y + box.height <= made.height
        for stroke in made.strokes:
            assert all(0 <= x <= paper.width for x in (stroke.x1, stroke.x2))
            assert all(0 <= y <= made.height for y in (stroke.y1, stroke.y2))
        for words in made.words:
            assert 0 <= words.x <= paper.width
            assert 0 <= words.y <= made.height


@given(comparisons())
def test_bars_and_arrows_stand_at_the_table_s_offsets(c: Comparison) -> None:
    """What is further right lies further right; what is at the same offset, at the same place, whichever replica it is of."""
    found = explained(tables_of(c))
    (one,) = found.followers
    made = picture(found, WIDE)
    assert made is not None
    places: dict[int, float] = {}
    for box in bars(made):
        said = re.search(r"offsets? (\d+)(?:\.\.(\d+))?", box.title)
        assert said
        first, last = int(said[1]), int(said[2] or said[1])
        for offset, x in ((first, box.x), (last + 1, box.x + box.width)):
            assert places.setdefault(offset, x) == x
    ordered = [places[offset] for offset in sorted(places)]
    assert ordered == sorted(ordered)
    cut = one.verdict.truncation_offset
    if one.verdict.severity != "none" and cut is not None and one.verdict.restart_offset is None and cut in places:
        heads = {stroke.x2 for stroke in made.strokes if "applies" in stroke.css} | {
            box.x + 3 for box in made.boxes if "applies" in box.css
        }
        assert places[cut] in heads


@pytest.mark.slow
@given(comparisons())
def test_any_partition_has_a_section(c: Comparison) -> None:
    """Every template is filled in; what is opened is closed."""
    tables = tables_of(c)
    verdict = tables["replica_verdicts"][0]
    names = ("verdict", "severity", "topic", "partition", "leader_id", "follower_id", "divergence_offset", "truncation_offset", "reason")
    data = page_data(finding(**{name: verdict[name] for name in names}), clusters=(cluster(verdicts={verdict["verdict"]: 1}),))
    page = render(data, [PartitionPlace(cluster_id="c", topic="orders", partition=0)], lambda _key: explained(tables))
    balance = Balance()
    balance.feed(page)
    assert balance.open == []
    assert page.count('<article class="partition') == 1


class Balance(HTMLParser):
    """The elements that are open; complains where another one is closed."""

    VOID = ("meta", "link", "input", "br", "rect", "path")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in self.VOID or self.get_starttag_text() == f"<{tag}>":
            self.open += [tag] if tag not in ("meta", "link", "input", "br") else []
        elif not str(self.get_starttag_text()).endswith("/>") and tag in ("rect", "path"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        """Closed at once."""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def scenario_1(**changed: Any) -> Explained:
    """KIP-279's scenario 1, n = 15: the leader has epochs 1 and 3, the follower parts from it at 11."""
    leader = replica(1, [(1, 0, 20), (3, 21, 30)], high_watermark=31)
    follower = replica(2, [(1, 0, 10), (2, 11, 15)], high_watermark=11, alive=False)
    return explained(tables_of(compare(leader, follower, **changed)))


@pytest.mark.parametrize("paper", [WIDE, NARROW])
def test_a_known_case(paper: Paper) -> None:
    made = picture(scenario_1(), paper)
    assert made is not None
    said = " ".join(words.text for words in made.words)
    for text in ("epoch 1", "epoch 2", "epoch 3", "Broker 1, the leader", "Broker 2, follower", "truncates 5 records", "to 11"):
        assert text in said
    assert made.description == "Leader 1: offsets 0..30. Follower 2: offsets 0..15, diverges from the leader at 11, truncates to 11."
    (gone,) = [box for box in made.boxes if box.css == "gone"]
    (same,) = [box for box in made.boxes if box.css == "same"]
    assert same.x + same.width == gone.x
    assert gone.title == "offsets 11..15 of broker 2: truncated"
    # an epoch has one colour, whichever replica holds it
    colours = {re.sub(r",.*", "", box.title): box.css.split()[1] for box in bars(made)}
    assert len(set(colours.values())) == len(colours) == 3


def test_a_long_prefix_leaves_room_for_what_differs() -> None:
    far = 4_000_000_000
    leader = replica(1, [(1, 0, far), (3, far + 1, far + 10)], high_watermark=far)
    follower = replica(2, [(1, 0, far), (2, far + 1, far + 5)], high_watermark=far, alive=False)
    batches = [[(1, 0, far), (3, far + 1, far + 10)], [(1, 0, far), (2, far + 1, far + 5)]]
    pair = compare(leader, follower, leader_batches=batches[0], follower_batches=batches[1])
    made = picture(explained(tables_of(pair)), NARROW)
    assert made is not None
    (gone,) = [box for box in made.boxes if box.css == "gone"]
    assert gone.width >= 40
    assert str(far + 1) in {words.text for words in made.words}


def test_groups_stand_where_they_committed() -> None:
    leader = replica(1, [(1, 0, 20), (3, 21, 30)], high_watermark=31)
    follower = replica(2, [(1, 0, 10), (2, 11, 15)], high_watermark=11, alive=False)
    tables = tables_of(compare(leader, follower))
    impact = {
        "group_id": "<b>billing</b>",
        "committed_offset": 16,
        "committed_leader_epoch": 2,
        "validation_result": "truncated",
        "reset_offset": 11,
        "nearest_offset": None,
        "records_gone": 5,
        "records_reread": 0,
        "records_missed": 0,
        "history_rewritten": False,
        "affected": True,
        "reason": "truncated",
    }
    tables["consumer_impacts"] = [KEYS | impact]
    made = picture(explained(tables), WIDE)
    assert made is not None
    assert {"<b>billing</b>", "committed 16, resumes at 11"} <= {words.text for words in made.words}
    (arrow,) = [stroke for stroke in made.strokes if "group" in stroke.css]
    (gone,) = [box for box in made.boxes if box.css == "gone"]
    assert (arrow.x2, arrow.x1) == (gone.x, gone.x + gone.width)


def test_a_follower_that_is_not_there_has_no_bar() -> None:
    tables = tables_of(compare(replica(1, [(1, 0, 20)], high_watermark=21), replica(2, [(1, 0, 10)], high_watermark=11)))
    tables["replica_logs"] = tables["replica_logs"][:1]
    made = picture(explained(tables), WIDE)
    assert made is not None
    assert {"Broker 2, follower", "not in the input"} <= {words.text for words in made.words}
    assert len(bars(made)) == 1


def test_who_is_right_is_said_of_every_verdict() -> None:
    (one,) = scenario_1().followers
    assert who_is_right(one) == (
        "Kafka follows the leader, broker 1. Whether the records that broker 2 will truncate were committed is unknown: no checkpointed "
        "high watermark proves it, and brokers write that checkpoint only every 5 s."
    )
    assert in_short(one) == "Broker 2 truncates to 11: it loses offsets 11..15, 5 records."
