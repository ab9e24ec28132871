"""What brokers log of a truncation, folded, and held against the rule.

The lines are those of real brokers of each generation. Where `../shared/clusters` stands beside the project, every broker's log of every
scenario is held against what is known of it, and against the rule's replay of the files that were copied before.
"""

from __future__ import annotations

import io
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica_audit.config import Settings
from replica_audit.formats.server_log.events import events
from replica_audit.protocol.comparison.observed import EventKind, LogEvent, ObservedCut, ObservedTruncation, agrees, observe
from replica_audit.protocol.exchange.replay import Step, Truncation
from replica_audit.protocol.exchange.replica import ReplicaState
from replica_audit.rows.codes import EpochRequest, FallsBack, Protocol
from replica_audit.rows.pairs import ContradictingLine, HighWatermarkFallback
from tests.support import in_process
from tests.support.shares import by_day

SHARED = Path(__file__).resolve().parents[3] / "shared" / "clusters"  # only beside the sources
SCENARIOS = [path.parent for path in sorted(SHARED.glob("*/expected.json")) if (path.parent / "broker-logs").is_dir()]
Key = tuple[int, str, int]

FETCHER = "INFO [ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] "
LOG = "INFO [Log partition=orders-0, dir=/d] "
UNIFIED = "INFO [UnifiedLog partition=orders-0, dir=/d] "
MANAGER = "INFO [ReplicaFetcherManager on broker 1] "
LOADED = (
    "INFO Completed load of Log(dir=/d/orders-0, topicId=x, topic=orders, partition=0, logStartOffset=0, logEndOffset=31) with 1 segments"
)
FOLLOWS = (
    "INFO [Broker id=1] Follower orders-0 starts at leader epoch 6 from offset 31 with partition epoch 7. Current leader is 2. Previous"
)
REMOVED = MANAGER + "Removed fetcher for partitions Set(orders-0)"
ADDED = (
    MANAGER + "Added fetcher to broker 2 for partitions Map(orders-0 -> InitialFetchState(None,BrokerEndPoint(id=2, host=h:1),{epoch},31))"
)
OLD_LOADED = LOG + "Completed load of log with 1 segments, log start offset 0 and log end offset 31 in 3 ms"
NO_NEED = FETCHER + (
    "Based on follower's leader epoch, leader replied with an offset 40 >= the follower's log end offset 31 in orders-0. "
    "No truncation needed."
)
NO_EFFECT = "Truncating to 31 has no effect as the largest offset in the log is 30"
MORE = (
    "Based on replica's leader epoch, leader replied with epoch 2 unknown to the replica for orders-0. Will truncate to 21 and send another"
)
UNKNOWN = "Based on replica's leader epoch, leader replied with an unknown offset in orders-0. The initial fetch offset {} will be used"


def cut_line(offset: int, answered_epoch: int, answered_end_offset: int, *, complete: bool = True, leader: int = 2) -> str:
    """The line of 3.1 and later."""
    return (
        f"INFO [ReplicaFetcher replicaId=1, leaderId={leader}, fetcherId=0] Truncating partition orders-0 with "
        f"TruncationState(offset={offset}, completed={str(complete).lower()}) due to leader epoch and offset "
        f"EpochEndOffset(errorCode=0, partition=0, leaderEpoch={answered_epoch}, endOffset={answered_end_offset})"
    )


def answer_line(partition: str) -> str:
    response = f"Received leaderEpoch response ClientResponse(epochEndOffsetsByPartition={{{partition}}})"
    return f"DEBUG [ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] {response}"


TWO_ROUNDS = [
    LOADED,
    FOLLOWS,
    REMOVED,
    ADDED.format(epoch=6),
    FETCHER + MORE,
    cut_line(21, 2, 16, complete=False),
    UNIFIED + "Truncating to offset 21",
    cut_line(11, 0, 11),
    UNIFIED + "Truncating to offset 11",
]


def read(*lines: str) -> list[LogEvent]:
    text = "".join(f"[2026-11-21 06:36:{number:02},000] {line} (kafka.x)\n" for number, line in enumerate(lines))
    return list(events(io.BytesIO(text.encode()), "server.log"))


def seen(*lines: str) -> ObservedTruncation:
    return observe(read(*lines))


def short(cut: ObservedCut) -> tuple[int, bool | None, int | None, int | None, bool]:
    return cut.offset, cut.event.complete, cut.event.answered_epoch, cut.event.answered_end_offset, cut.effective


@pytest.mark.parametrize(
    ("lines", "cuts", "high_watermark", "truncation_offset"),
    [
        pytest.param(TWO_ROUNDS, [(21, False, 2, 16, True), (11, True, 0, 11, True)], None, 11, id="4.2: two rounds"),
        pytest.param(
            [line for line in TWO_ROUNDS if "UnifiedLog" not in line],
            [(21, False, 2, 16, True), (11, True, 0, 11, True)],
            None,
            11,
            id="4.2: the log is silent",
        ),
        pytest.param(
            [
                FETCHER + "Truncating partition orders-0 with TruncationState(offset=31, completed=true) due to local high watermark 31",
                UNIFIED + NO_EFFECT,
            ],
            [],
            31,
            None,
            id="4.2: no epochs, nothing to cut",
        ),
        pytest.param([cut_line(31, 5, 31), UNIFIED + NO_EFFECT], [(31, True, 5, 31, False)], None, None, id="4.2: ordered, nothing to cut"),
        pytest.param(
            [FETCHER + UNKNOWN.format(8), cut_line(8, -1, -1), UNIFIED + "Truncating to offset 8"],
            [],
            8,
            8,
            id="3.1: an undefined answer is the high watermark",
        ),
        pytest.param(
            [FETCHER + MORE, UNIFIED + "Truncating to offset 21", UNIFIED + "Truncating to offset 11"],
            [(21, False, 2, None, True), (11, None, None, None, True)],
            None,
            11,
            id="2.8 and 3.0: no line for the cut",
        ),
        pytest.param(
            [
                answer_line(
                    "orders-1=EpochEndOffset{error=NONE, leaderEpoch=9, endOffset=9}, "
                    "orders-0=EpochEndOffset{error=NONE, leaderEpoch=2, endOffset=25}"
                ),
                FETCHER + MORE,
                LOG + "Truncating to offset 21",
                answer_line("orders-0=EpochEndOffset{error=NONE, leaderEpoch=0, endOffset=11}"),
                LOG + "Truncating to offset 11",
            ],
            [(21, False, 2, 25, True), (11, True, 0, 11, True)],
            None,
            11,
            id="2.4: the answers at DEBUG",
        ),
        pytest.param(
            [
                answer_line("orders-0=EpochEndOffset{error=NONE, leaderEpoch=-1, endOffset=21}"),
                FETCHER + "Leader or replica is on protocol version 0. The leader's offset 21 will be used for truncation in orders-0.",
                LOG + "Truncating to offset 21",
            ],
            [(21, True, -1, 21, True)],
            None,
            21,
            id="2.4 in an older inter.broker.protocol",
        ),
        pytest.param(
            [FETCHER + "Truncating partition orders-0 to local high watermark 21", LOG + "Truncating to offset 21"],
            [],
            21,
            21,
            id="2.4: local high watermark",
        ),
        pytest.param(
            [
                "DEBUG [ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] Receive leaderEpoch response Map(orders-0 -> "
                "EpochEndOffset{error=NONE, endOffset=40})",
                NO_NEED,
                LOG + NO_EFFECT,
            ],
            [(31, True, None, 40, False)],
            None,
            None,
            id="1.1: no truncation needed",
        ),
        pytest.param([NO_NEED, LOG + NO_EFFECT], [(31, True, None, 40, False)], None, None, id="1.1: the same without DEBUG"),
        pytest.param(
            [
                FETCHER + UNKNOWN.format(37),
                LOG + "Truncating to 37 has no effect as the largest offset in the log is 36",
                FETCHER + "Reset fetch offset for partition orders-0 from 37 to current leader's latest offset 25",
                LOG + "Truncating to offset 25",
            ],
            [(25, True, None, None, True)],
            37,
            25,
            id="1.1: high watermark, then out of range",
        ),
        pytest.param([LOG + "Truncating to offset 21"], [(21, None, None, None, True)], None, 21, id="the log alone: the cause is unknown"),
        pytest.param([LOG + NO_EFFECT], [], None, None, id="the log alone: nothing to cut"),
        pytest.param(["INFO Truncating log orders-0 to offset 21."], [(21, None, None, None, True)], None, 21, id="0.10"),
        pytest.param(
            [cut_line(21, 2, 16), UNIFIED + "Truncating to offset 5"],
            [(21, True, 2, 16, True), (5, None, None, None, True)],
            None,
            5,
            id="the log tells of another cut",
        ),
        pytest.param(
            [answer_line("orders-0=EpochEndOffset{error=NONE, leaderEpoch=0, endOffset=11}")], [], None, None, id="only an answer"
        ),
        pytest.param([], [], None, None, id="nothing"),
    ],
)
def test_generations(lines: list[str], cuts: list[Any], high_watermark: int | None, truncation_offset: int | None) -> None:
    observed = seen(*lines)
    assert [short(cut) for cut in observed.cuts] == cuts
    assert (observed.high_watermark_offset, observed.truncation_offset) == (high_watermark, truncation_offset)
    assert not observed.fetcher_failed
    assert observed.restart_offset is None


def test_restart_and_failure() -> None:
    observed = seen(
        cut_line(12, 0, 20),
        UNIFIED + "Truncating to offset 12",
        FETCHER + "Truncate fully and reset fetch offset for partition orders-0 from 12 to the current leader's start offset 16 because",
        FETCHER + "Unexpected error occurred while processing data for partition orders-0 at offset 16",
    )
    assert (observed.truncation_offset, observed.restart_offset, observed.fetcher_failed) == (12, 16, True)


def test_cuts_name_their_line() -> None:
    first, last = seen(*TWO_ROUNDS).cuts
    assert (first.event.path, first.event.line, first.event.time) == ("server.log", 6, "2026-11-21 06:36:05,000")
    assert (first.leader_id, first.leader_epoch, first.event.kind) == (2, 6, EventKind.FETCHER_TRUNCATION)
    assert first.exchange == last.exchange
    assert (first.log_end_offset, last.log_end_offset) == (31, 21)


def test_answers_of_the_log_name_the_line_of_the_log() -> None:
    (cut,) = seen(answer_line("orders-0=EpochEndOffset{error=NONE, leaderEpoch=0, endOffset=11}"), LOG + "Truncating to offset 11").cuts
    assert (cut.event.line, cut.event.kind, cut.leader_id) == (2, EventKind.EPOCH_RESPONSE, 2)


def test_the_copy_that_a_replica_is_moved_to_is_left_out() -> None:
    lines = [OLD_LOADED, LOG + "Truncating to offset 21", LOG.replace("/d]", "/e]") + "Truncating to offset 5"]
    assert [cut.offset for cut in seen(*lines).cuts] == [21]
    moved = [*lines, OLD_LOADED.replace("/d]", "/e]"), LOG.replace("/d]", "/e]") + "Truncating to offset 3"]
    assert [cut.offset for cut in seen(*moved).cuts] == [21, 3]


CUT = [cut_line(21, 2, 16), UNIFIED + "Truncating to offset 21"]
LEADS = "INFO [Broker id=1] Leader orders-0 starts at leader epoch 7 from offset 31 with high watermark 1"


@pytest.mark.parametrize(
    ("lines", "log_end_offset"),
    [
        pytest.param([*CUT], None, id="nothing tells"),
        pytest.param([LOADED, *CUT], 31, id="loaded"),
        pytest.param([OLD_LOADED, *CUT], 31, id="loaded before 2.6"),
        pytest.param([FOLLOWS, *CUT], 31, id="became a follower"),
        pytest.param([LOADED, REMOVED, ADDED.format(epoch=6), *CUT], 31, id="loaded, state changes logged elsewhere"),
        pytest.param([LOADED, FOLLOWS, REMOVED, ADDED.format(epoch=6), *CUT], 31, id="loaded, state changes logged too"),
        pytest.param([LOADED, FOLLOWS, ADDED.format(epoch=6), ADDED.format(epoch=7), *CUT], None, id="fetched from a leader before"),
        pytest.param([LOADED, LEADS, *CUT], None, id="led before"),
        pytest.param([LOADED, REMOVED, REMOVED, ADDED.format(epoch=8), *CUT], None, id="led before, state changes logged elsewhere"),
        pytest.param([LOADED, LEADS, FOLLOWS.replace("epoch 6", "epoch 8"), *CUT], 31, id="led before, its end is told"),
        pytest.param([LOADED, UNIFIED + "Truncating to offset 25", *CUT], None, id="fetched after a cut"),
        pytest.param([LOADED, LOG + NO_EFFECT, *CUT], 31, id="nothing was cut before, by the log alone"),
        pytest.param([LOADED, FETCHER + UNKNOWN.format(31), LOG + NO_EFFECT, *CUT], None, id="fetched from the high watermark"),
        pytest.param(
            [FETCHER + "Reset fetch offset for partition orders-0 from 31 to current leader's latest offset 21"], 31, id="out of range"
        ),
    ],
)
def test_where_the_log_ended(lines: list[str], log_end_offset: int | None) -> None:
    assert seen(*lines).cuts[-1].log_end_offset == log_end_offset


_AT_ONCE = HighWatermarkFallback(
    because=FallsBack.UNDEFINED, after_round=1, high_watermark=0, in_memory=False, log_end_offset=0, truncate_to=None
)


def rule(
    *cuts: tuple[int | None, int, int | None], falls_back: bool = False, restart: int | None = None, stuck: bool = False
) -> Truncation:
    """The rule's truncation by (answered epoch, answered end offset, offset that is cut to); all but the last are not complete."""
    steps = [
        Step(
            request=EpochRequest.FETCH,
            requested_epoch=9,
            answered_epoch=epoch,
            answered_end_offset=end,
            truncate_to=offset,
            complete=number == len(cuts),
        )
        for number, (epoch, end, offset) in enumerate(cuts, 1)
    ]
    offsets = tuple(step.truncate_to for step in steps if step.truncate_to is not None)
    nothing = ReplicaState(log_start_offset=0, log_end_offset=0, epochs=(), high_watermark=0, first_segment_base=0)
    return Truncation(
        protocol=Protocol.TRUNCATE_ON_FETCH,
        steps=(*steps, Step(request=EpochRequest.FETCH, fetch_offset=0)),
        cuts=tuple((offset, True) for offset in offsets),
        effective_cuts=offsets,
        fallback=_AT_ONCE if falls_back else None,
        restart_offset=restart,
        stuck=stuck,
        fetch_offset=0,
        follower_after=nothing,
    )


def said(contradiction: ContradictingLine | None) -> str | None:
    return None if contradiction is None else contradiction.sentence


RULE = rule((2, 16, 21), (0, 11, 11))
RESET = FETCHER + "Reset fetch offset for partition orders-0 from 31 to current leader's latest offset 25"
STARTED = TWO_ROUNDS[:4]


@pytest.mark.parametrize(
    ("lines", "truncation", "log_end_offset"),
    [
        pytest.param(TWO_ROUNDS, RULE, 31, id="the same"),
        pytest.param(TWO_ROUNDS, rule((2, 16, 20), (0, 11, 11)), 32, id="from another end than ours"),
        pytest.param(TWO_ROUNDS, RULE, 15, id="cut above our end"),
        pytest.param(TWO_ROUNDS[4:], rule((2, 16, 20), (0, 11, 11)), 31, id="nothing tells where the log ended"),
        pytest.param(TWO_ROUNDS[:7], RULE, 31, id="later lines are missing"),
        pytest.param([*STARTED, *TWO_ROUNDS[7:]], RULE, 31, id="earlier lines are missing"),
        pytest.param([], RULE, 31, id="no lines"),
        pytest.param([*TWO_ROUNDS, cut_line(4, 0, 4)], RULE, 31, id="a later leader cuts more"),
        pytest.param([*TWO_ROUNDS, ADDED.format(epoch=9), cut_line(4, 0, 4)], RULE, 31, id="a later leader cuts more, and is told"),
        pytest.param(TWO_ROUNDS, rule((2, 16, None)), 31, id="the rule cuts nothing: older lines"),
        pytest.param([*STARTED, cut_line(31, 5, 31), UNIFIED + NO_EFFECT], RULE, 31, id="a cut without effect"),
        pytest.param(
            [*STARTED, FETCHER + "Truncating partition orders-0 to local high watermark 3", UNIFIED + "Truncating to offset 3"],
            RULE,
            31,
            id="a cut to the high watermark",
        ),
        pytest.param([*STARTED, UNIFIED + "Truncating to offset 3"], rule(falls_back=True), 31, id="perhaps the high watermark"),
        pytest.param(
            [*STARTED, UNIFIED + "Truncating to offset 3"], rule((2, 16, 21), falls_back=True), 31, id="perhaps the high watermark too"
        ),
        pytest.param(
            [*STARTED, RESET, UNIFIED + "Truncating to offset 25"], rule((None, 23, 23)), 31, id="to the leader's end of the moment"
        ),
        pytest.param([*STARTED, cut_line(23, 5, 23)], rule((5, 22, 22)), 31, id="the leader wrote on in the epoch"),
        pytest.param([*STARTED, cut_line(23, 4, 25)], rule((2, 16, 16)), 31, id="retention took the leader's older epochs"),
        pytest.param(
            [*STARTED, UNIFIED + "Truncating to offset 23"],
            rule((None, 22, 22)),
            31,
            id="the leader wrote on, and its answer is not logged",
        ),
        pytest.param([*TWO_ROUNDS, LOADED, *CUT], rule((2, 16, 20)), 31, id="two exchanges from one end: no telling which is ours"),
    ],
)
def test_what_proves_nothing(lines: list[str], truncation: Truncation, log_end_offset: int) -> None:
    assert agrees(seen(*lines), truncation, log_end_offset) is None
    assert agrees(seen(*lines), truncation, log_end_offset, leader_id=2, leader_epoch=6) is None


@pytest.mark.parametrize(
    ("lines", "truncation", "sentence"),
    [
        pytest.param(
            TWO_ROUNDS,
            rule((2, 16, 20), (0, 11, 11)),
            "the broker truncated to 21 (server.log, line 6), the rule truncates to 20",
            id="first",
        ),
        pytest.param(
            TWO_ROUNDS,
            rule((2, 16, 21), (0, 11, 10)),
            "the broker truncated to 11 (server.log, line 8), the rule truncates to 10",
            id="last",
        ),
        pytest.param(
            TWO_ROUNDS,
            rule((2, 16, 21), (0, 12, 12)),
            "the broker truncated to 11 (server.log, line 8), the rule truncates to 12",
            id="below",
        ),
        pytest.param(
            [OLD_LOADED, LOG + "Truncating to offset 20"],
            rule((None, 21, 21)),
            "the broker truncated to 20 (server.log, line 2), the rule truncates to 21",
            id="below, only the log tells",
        ),
        pytest.param(
            [LOADED, REMOVED, ADDED.format(epoch=6), *CUT],
            rule((2, 16, 22)),
            "the broker truncated to 21 (server.log, line 4), the rule truncates to 22",
            id="state changes logged elsewhere",
        ),
    ],
)
def test_what_contradicts(lines: list[str], truncation: Truncation, sentence: str) -> None:
    assert said(agrees(seen(*lines), truncation, 31)) == sentence


def test_a_cut_where_the_rule_has_none_counts_if_it_came_after_the_copy() -> None:
    sentence = "the broker truncated to 21 (server.log, line 6), the rule does not truncate"
    assert said(agrees(seen(*TWO_ROUNDS), rule((6, 40, None)), 31, after_copy=True)) == sentence
    assert agrees(seen(*TWO_ROUNDS), rule((6, 40, None)), 30, after_copy=True) is None
    assert agrees(seen(*TWO_ROUNDS), rule(restart=40), 31, after_copy=True) is None
    assert agrees(seen(*TWO_ROUNDS), rule((6, 40, None), stuck=True), 31, after_copy=True) is None
    assert agrees(seen(), rule((6, 40, None)), 31, after_copy=True) is None


def test_another_leader_proves_nothing() -> None:
    observed, other = seen(*TWO_ROUNDS), rule((2, 16, 20), (0, 11, 11))
    assert agrees(observed, other, 31, leader_id=2, leader_epoch=6)
    assert agrees(observed, other, 31, leader_id=3) is None
    assert agrees(observed, other, 31, leader_epoch=7) is None


def test_leader_that_the_log_does_not_name_is_not_compared() -> None:
    observed = seen(OLD_LOADED, LOG + "Truncating to offset 20")
    assert agrees(observed, rule((None, 21, 21)), 31, leader_id=3, leader_epoch=7)


def test_cut_without_a_path() -> None:
    observed = observe(event._replace(path="") for event in read(*TWO_ROUNDS))
    assert said(agrees(observed, rule((2, 16, 20)), 31)) == "the broker truncated to 21 (server.log, line 6), the rule truncates to 20"


NUMBERS = st.none() | st.integers(-1, 40)
ANY_EVENTS = st.lists(
    st.builds(
        LogEvent,
        broker_id=st.just(1),
        topic=st.just("orders"),
        partition=st.just(0),
        kind=st.sampled_from(EventKind),
        time=st.just(""),
        line=st.integers(1, 99),
        byte_offset=st.just(0),
        leader_id=NUMBERS,
        offset=NUMBERS,
        complete=st.none() | st.booleans(),
        answered_epoch=NUMBERS,
        answered_end_offset=NUMBERS,
        leader_epoch=NUMBERS,
        log_end_offset=NUMBERS,
        log_dir=st.sampled_from([None, "/d", "/e"]),
    ),
    max_size=12,
)


@given(ANY_EVENTS, st.booleans())
def test_lines_in_any_order_can_be_folded(lines: list[LogEvent], after_copy: bool) -> None:
    observed = observe(lines)
    logged = {line.offset or 0 for line in lines}
    assert {cut.offset for cut in observed.cuts} <= logged
    assert observed.truncation_offset is None or observed.truncation_offset in logged
    sentence = said(agrees(observed, RULE, 31, after_copy=after_copy))
    assert sentence is None or any(cut.effective and f"truncated to {cut.offset} " in sentence for cut in observed.cuts)


# Real brokers, every scenario that there is.


def broker_logs(scenario: Path) -> Iterator[tuple[int, str, bytes]]:
    for path in sorted((scenario / "broker-logs").glob("*.log")):
        broker = re.search(r"broker-(\d+)", path.name)
        assert broker
        yield int(broker[1]), path.name, path.read_bytes()


def by_replica(logs: Iterator[tuple[int, str, bytes]]) -> dict[Key, list[LogEvent]]:
    found: dict[Key, list[LogEvent]] = defaultdict(list)
    for broker, name, content in logs:
        for event in events(io.BytesIO(content), name):
            found[broker, event.topic, event.partition].append(event)
    return found


def expected_cut(cut: dict[str, Any]) -> tuple[int, bool | None, int | None, int | None, bool]:
    answer = cut["leader_answer"] or ""
    epoch, end = re.search(r"leaderEpoch=(-?\d+)", answer), re.search(r"endOffset=(-?\d+)", answer)
    return cut["offset"], cut["completed"], int(epoch[1]) if epoch else None, int(end[1]) if end else None, not cut.get("no_effect")


@pytest.mark.clusters
def test_logs_of_real_brokers_tell_what_is_known_of_them() -> None:
    replicas, wrong = 0, []
    for scenario in SCENARIOS:
        found = by_replica(broker_logs(scenario))
        expected = json.loads((scenario / "expected.json").read_text(encoding="utf-8"))
        # of brokers that truncate on fetch, what was cut to the high watermark is left out there
        has_high_watermark = expected["protocol"] != Protocol.TRUNCATE_ON_FETCH
        for row in expected["replicas"]:
            replicas += 1
            lines = found[row["replica"], row["topic"], row["partition"]]
            observed = observe(lines)
            restarts = [event for event in lines if event.kind is EventKind.FULL_TRUNCATION]
            got = (
                [short(cut) for cut in observed.cuts],
                [event.offset for event in lines if event.kind is EventKind.LOG_TRUNCATION],
                observed.high_watermark_offset if has_high_watermark else None,
                [{"from_offset": event.log_end_offset, "start_at": event.offset} for event in restarts],
                observed.restart_offset,
                observed.fetcher_failed,
                observed.truncation_offset,
            )
            want = (
                [expected_cut(cut) for cut in row["fetcher_truncations"]],
                row["log_truncations"],
                row["high_watermark_truncation"],
                row["full_truncations"],
                row["full_truncations"][-1]["start_at"] if row["full_truncations"] else None,
                row["fetcher_failed"],
                row["log_truncations"][-1] if row["log_truncations"] else None,
            )
            if got != want:
                wrong.append((scenario.name, row["topic"], row["partition"], row["replica"], got, want))
    assert not wrong
    assert replicas > 600 or not SHARED.is_dir()


@pytest.mark.clusters
def test_logs_without_debug_lines_tell_the_same_cuts() -> None:
    for scenario in SCENARIOS:
        logs = [
            (broker, name, b"\n".join(line for line in content.split(b"\n") if b"] DEBUG " not in line))
            for broker, name, content in broker_logs(scenario)
        ]
        full, less = by_replica(broker_logs(scenario)), by_replica(iter(logs))
        for key in full:
            whole, part = observe(full[key]), observe(less[key])
            assert part.truncation_offset == whole.truncation_offset
            assert [cut.offset for cut in part.cuts if cut.effective] == [cut.offset for cut in whole.cuts if cut.effective]
            assert (part.restart_offset, part.fetcher_failed) == (whole.restart_offset, whole.fetcher_failed)


def truncation_of(row: dict[str, Any]) -> Truncation:
    """The rule's truncation, from the row that the audit makes of it."""
    made = rule(falls_back=row["falls_back_to_high_watermark"], restart=row["restart_offset"])
    names = ("requested_epoch", "answered_epoch", "answered_end_offset", "truncate_to", "complete")
    return replace(made, steps=tuple(Step(request=EpochRequest.FETCH, **{name: part[name] for name in names}) for part in row["rounds"]))


def replays(root: Path) -> Iterator[tuple[Key, Truncation, int, tuple[int, int]]]:
    """Every follower of a root: which it is, its truncation by the rule, where its log ends, and its leader with the epoch."""
    tables = in_process.audit(root, settings=Settings(detail="all"))
    ends = {(row["broker_id"], row["topic"], row["partition"]): row["log_end_offset"] for row in tables["replica_logs"]}
    metadata = json.loads((root / "cluster-metadata.json").read_text(encoding="utf-8"))
    leaders = {
        (topic["topic"], partition["partition"]): (partition["leader"], partition["leader_epoch"])
        for topic in metadata["topics"]
        for partition in topic["partitions"]
    }
    for row in tables["truncation_points"]:
        if row["applies"]:
            key = row["follower_id"], row["topic"], row["partition"]
            yield key, truncation_of(row), ends[key], leaders.get((row["topic"], row["partition"]), (row["leader_id"], -1))


@pytest.mark.clusters
@pytest.mark.parametrize("scenario", by_day(SCENARIOS), ids=lambda path: path.name)
def test_the_rule_agrees_with_real_brokers(scenario: Path) -> None:
    """Also where what was copied is younger than the lines: then they prove nothing."""
    compared, wrong = 0, []
    found = by_replica(broker_logs(scenario))
    for name in ("before", "after", "stopped"):
        for key, truncation, end, (leader, epoch) in replays(scenario / name) if (scenario / name).is_dir() else []:
            observed = observe(found[key])
            compared += 1
            for more in (False, True) if name == "before" else (False,):
                sentences = [
                    agrees(observed, truncation, end, after_copy=more),
                    agrees(observed, truncation, end, leader_id=leader, after_copy=more),
                    agrees(observed, truncation, end, leader_id=leader, leader_epoch=epoch, after_copy=more),
                ]
                wrong += [(scenario.name, name, key, sentence) for sentence in sentences if sentence]
    assert not wrong
    assert compared


def shifted(content: bytes, key: Key, by: int) -> bytes:
    """The log with every offset that this replica is cut to changed, and the answers as they are."""
    name = f"{key[1]}-{key[2]}".encode()

    def moved(match: re.Match[bytes]) -> bytes:
        return match[1] + str(int(match[2]) + by).encode()

    for before in (
        rb"(Truncating partition %s with TruncationState\(offset=)(\d+)",
        rb"(partition=%s, dir=[^\]]*\] Truncating to offset )(\d+)",
    ):
        content = re.sub(before % re.escape(name), moved, content)
    return re.sub(rb"(replica for %s\. Will truncate to )(\d+)" % re.escape(name), moved, content)


@pytest.mark.clusters
@pytest.mark.parametrize("by", [-1, 1])
def test_made_up_offsets_are_reported(by: int) -> None:
    """Of each follower that its broker cut from where the copied log ends, by the log's own lines; if that leaves a cut."""
    reported, silent = 0, []
    for scenario in SCENARIOS:
        logs = list(broker_logs(scenario))
        found = by_replica(iter(logs))
        for key, truncation, end, (leader, epoch) in replays(scenario / "before"):
            first = next((cut for cut in observe(found[key]).cuts if cut.effective), None)
            if first is None or first.log_end_offset != end or first.event.kind is EventKind.OUT_OF_RANGE_RESET:
                continue
            if not 0 <= first.offset + by < end:
                continue
            changed = by_replica((broker, name, shifted(content, key, by)) for broker, name, content in logs if broker == key[0])
            sentence = said(agrees(observe(changed[key]), truncation, end, leader_id=leader, leader_epoch=epoch))
            if sentence is None:
                silent.append((scenario.name, key))
            else:
                assert f"truncated to {first.offset + by} " in sentence
                reported += 1
    assert not silent
    assert reported >= 160 or not SHARED.is_dir()
