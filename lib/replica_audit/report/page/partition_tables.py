"""The tables of a page about a partition as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from replica_audit.report.advice.transaction_remedies import stops_consumers
from replica_audit.report.facts.partition_facts import PartitionFacts
from replica_audit.report.page.plain_words import number
from replica_audit.report.text import (
    choices_text,
    damage_text,
    elections_text,
    gaps_text,
    groups_text,
    roles_text,
    transactions_text,
)

_MOST = 50
_NUMBER = re.compile(r"[-?]|\d+(\+\d+)?|policy|same")


class PageTable(NamedTuple):
    """A table: what it is, its head, its rows."""

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def columns(self) -> list[tuple[str, bool]]:
        """The headings, and whether the cells below are numbers."""
        cells = zip(*self.rows, strict=True)
        return [(name, any(column) and all(map(_is_number, column))) for name, column in zip(self.head, cells, strict=True)]


def _is_number(cell: str) -> bool:
    return not cell or _NUMBER.fullmatch(cell) is not None


def grids_of_partition(facts: PartitionFacts) -> Iterator[PageTable]:
    """Groups, damage, open transactions, gaps, choices, replicas and elections, as far as there are any."""
    hit = [impact for impact in facts.impacts if impact.affected is not False]
    if hit:
        more = f" (the worst {_MOST} of {number(len(hit))})" if len(hit) > _MOST else ""
        rows = tuple((*groups_text.group_row(impact), impact.reason) for impact in hit[:_MOST])
        yield PageTable(f"Affected consumer groups{more}", (*groups_text.HEAD, "what happens"), rows)
    if facts.damaged:
        rows = tuple(map(damage_text.damage_row, facts.damaged[:_MOST]))
        yield PageTable(damage_text.TITLE, damage_text.HEAD, rows)
    if facts.transactions:
        caption = f"{transactions_text.TITLE}. {stops_consumers(facts.transactions)}"
        yield PageTable(caption, transactions_text.HEAD, tuple(map(transactions_text.transaction_row, facts.transactions[:_MOST])))
    if facts.gaps:
        yield PageTable(gaps_text.TITLE, gaps_text.HEAD, tuple(map(gaps_text.gap_row, facts.gaps[:_MOST])))
    if facts.choices:
        yield PageTable(
            "Each replica as the leader, smallest loss first", choices_text.HEAD, tuple(map(choices_text.choice_row, facts.choices))
        )
    if facts.roles:
        yield PageTable("The replicas", roles_text.HEAD, tuple(map(roles_text.role_row, facts.roles)))
    if facts.elections:
        yield PageTable("Elections in the metadata log", elections_text.HEAD, tuple(elections_text.election_rows(facts.elections)))
