"""The tables of a page about a partition as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from replica_audit.report.advice.transaction_remedies import stops_consumers
from replica_audit.report.facts.partition_facts import PartitionFacts
from replica_audit.report.page.plain_words import number
from replica_audit.report.text import partition_text

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
        rows = tuple((*partition_text.group_row(impact), impact.reason) for impact in hit[:_MOST])
        yield PageTable(f"Affected consumer groups{more}", (*partition_text.GROUP_HEAD, "what happens"), rows)
    if facts.damaged:
        rows = tuple(map(partition_text.damage_row, facts.damaged[:_MOST]))
        yield PageTable(partition_text.DAMAGE_TITLE, partition_text.DAMAGE_HEAD, rows)
    if facts.transactions:
        caption = f"{partition_text.TRANSACTION_TITLE}. {stops_consumers(facts.transactions)}"
        yield PageTable(caption, partition_text.TRANSACTION_HEAD, tuple(map(partition_text.transaction_row, facts.transactions[:_MOST])))
    if facts.gaps:
        yield PageTable(partition_text.GAP_TITLE, partition_text.GAP_HEAD, tuple(map(partition_text.gap_row, facts.gaps[:_MOST])))
    if facts.choices:
        yield PageTable(
            "Each replica as the leader, smallest loss first",
            partition_text.CHOICE_HEAD,
            tuple(map(partition_text.choice_row, facts.choices)),
        )
    if facts.roles:
        yield PageTable("The replicas", partition_text.ROLE_HEAD, tuple(map(partition_text.role_row, facts.roles)))
    if facts.elections:
        yield PageTable("Elections in the metadata log", partition_text.ELECTION_HEAD, tuple(partition_text.election_rows(facts.elections)))
