"""The same pair under every rule, and what the broker itself logged."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.report.facts.explanation import Explanation
from replica_audit.report.layout.fitted_table import fitted
from replica_audit.report.layout.paragraphs import listed, paragraph
from replica_audit.rows.pairs import TruncationPoint
from replica_audit.rows.what_if import WhatIfRule

HEAD = ("", "", "cut\nto", "round\ntrips", "bytes", "falls\nback", "removed\noffsets", "then")
_PREFERRED = "leave-isr-on-preferred-election"  # its exchange is KIP-101's: what it changes is the election, which only its reason tells


def rule_lines(explanation: Explanation) -> Iterator[str]:
    """One row for each protocol and each rejected alternative; why the alternatives would have cut elsewhere."""
    others = _others(explanation)
    if not explanation.points and not others:
        return
    rejected = [rule for rule in others if not rule.accepted]
    yield "Under the other protocols (> applies here" + (", x rejected by KIP-279)" if rejected else ")")
    yield from fitted(HEAD, rule_rows(explanation))
    if explanation.rules:
        yield from paragraph(
            "Round trips: questions about epochs. Bytes: of this partition, in questions + in answers. Falls back: to the high "
            "watermark. Removed offsets: from the start of the batch that holds the truncation offset: batches are removed whole."
        )
    cut = None if explanation.applied is None else explanation.applied.truncation_offset
    for rule in rejected:
        if rule.rule == _PREFERRED or rule.truncation_offset != cut:
            yield from paragraph(f"{rule.rule}: {rule.reason}")


def rule_rows(explanation: Explanation) -> list[tuple[str, ...]]:
    """The cells below HEAD: every protocol, then the rejected alternatives."""
    built = {rule.rule: rule for rule in explanation.rules}
    of_protocols = [_of_protocol(point, built.get(point.protocol)) for point in explanation.points]
    return of_protocols + [_of_rule(rule) for rule in _others(explanation)]


def _others(explanation: Explanation) -> list[WhatIfRule]:
    """The rules that are no protocol of the truncation points."""
    return [rule for rule in explanation.rules if all(rule.rule != point.protocol for point in explanation.points)]


def _of_protocol(point: TruncationPoint, rule: WhatIfRule | None) -> tuple[str, ...]:
    then = (
        "" if point.restart_offset is None else f"restarts at {point.restart_offset}",
        "still differs" if point.still_diverged else "",
        "fetcher fails" if point.fetcher_fails else "",
    )
    return (
        ">" if point.applies else "",
        point.protocol,
        _number(point.truncation_offset),
        str(point.round_trips) if rule is None else _number(rule.round_trips),
        "" if rule is None else _bytes(rule),
        _answer(point.falls_back_to_high_watermark),
        str(point.removed_offsets),
        ", ".join(filter(None, then)),
    )


def _of_rule(rule: WhatIfRule) -> tuple[str, ...]:
    numbers = (_number(rule.truncation_offset), _number(rule.round_trips), _bytes(rule))
    return ("" if rule.accepted else "x", rule.rule, *numbers, _answer(rule.falls_back_to_high_watermark), "", "")


def _bytes(rule: WhatIfRule) -> str:
    return f"{_number(rule.request_bytes)}+{_number(rule.response_bytes)}"


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _answer(value: bool) -> str:
    return "yes" if value else "no"


def observed_lines(explanation: Explanation) -> Iterator[str]:
    """What the follower's broker logged that it did, beside what the rule gives."""
    verdict, seen = explanation.verdict, explanation.verdict.observed_truncation_offset
    if seen is None:
        return
    yield f"What broker {verdict.follower_id} did, according to its server.log"
    cut = verdict.truncation_offset
    if seen == cut:
        yield from paragraph(f"It truncated to {seen}, as {verdict.protocol} requires.")
        return
    gives = "no truncation" if cut is None else f"{cut}"
    yield from paragraph(f"It truncated to {seen}; {verdict.protocol} gives {gives}.{_same(explanation, seen)}")
    is_known = explanation.applied is not None and explanation.applied.is_recorded
    if is_known and verdict.did_otherwise is None:
        yield from paragraph("That alone is not a contradiction: server.log may show another exchange, before or after these copies.")


def _same(explanation: Explanation, seen: int) -> str:
    """The rules that give what was seen."""
    offsets = {point.protocol: point.truncation_offset for point in explanation.points}
    offsets |= {rule.rule: rule.truncation_offset for rule in explanation.rules if rule.accepted}
    same = [name for name, offset in offsets.items() if offset == seen]
    return f" The same offset: {listed(same)}." if same else ""
