"""The partition's elections in the order of their epochs, and what unclean ones gave up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from replica_audit.report.facts.partition_facts import PartitionFacts
from replica_audit.report.layout.fitted_table import fitted
from replica_audit.report.layout.paragraphs import listed, paragraph
from replica_audit.rows.history import LeaderEpoch
from replica_audit.words import count

HEAD = ("epoch", "leader", "elected", "at (UTC)", "starts\nat", "lost in it")
_UNCLEAN = "unclean"
_MOST = 16
_FIRST, _LAST, _LAST_UNCLEAN = 3, 7, 5


def election_lines(facts: PartitionFacts) -> Iterator[str]:
    """One row for each election; of a long history the beginning, the end, and the last unclean ones."""
    elections = facts.elections
    if not elections:
        return
    yield "Elections in the metadata log"
    yield from fitted(HEAD, election_rows(elections))
    unclean = sum(election.election == _UNCLEAN for election in elections)
    if unclean:
        yield from paragraph(
            f"{count(unclean, 'unclean election')}. Lost in it: offsets of earlier epochs that a replica still holds and the elected one "
            "did not hold; what nobody holds any more is not counted."
        )


def election_rows(elections: Sequence[LeaderEpoch]) -> list[tuple[str, ...]]:
    """The cells below HEAD; of a long history the beginning, the end, and the last unclean ones."""
    shown = _shown(elections)
    rows: list[tuple[str, ...]] = []
    left_out = 0
    for place, election in enumerate(elections):
        if place not in shown:
            left_out += 1
            continue
        if left_out:
            rows.append(("...", "", f"{left_out} left out", "", "", ""))
            left_out = 0
        rows.append(_row(election))
    return rows


def _row(election: LeaderEpoch) -> tuple[str, ...]:
    return (
        str(election.leader_epoch),
        "nobody" if election.leader_id < 0 else str(election.leader_id),
        election.election,
        "-" if election.began_at is None else _time(election.began_at),
        "-" if election.start_offset is None else str(election.start_offset),
        _given_up(election),
    )


def _given_up(election: LeaderEpoch) -> str:
    if election.election != _UNCLEAN:
        return ""
    if election.given_up_offsets is None:
        return "not known"
    if not election.given_up_offsets:
        return "nothing held"
    return f"{election.given_up_offsets}, held by {listed(election.given_up_held_by or ())}"


def _time(at: datetime) -> str:
    utc = at if at.tzinfo is None else at.astimezone(UTC)
    return f"{utc:%Y-%m-%d %H:%M:%S.%f}"[:-3]


def _shown(elections: Sequence[LeaderEpoch]) -> set[int]:
    places = range(len(elections))
    if len(elections) <= _MOST:
        return set(places)
    unclean = [place for place in places if elections[place].election == _UNCLEAN]
    return {*places[:_FIRST], *places[-_LAST:], *unclean[-_LAST_UNCLEAN:]}
