"""The transactions of a partition that nobody will end, as a page shows them."""

from __future__ import annotations

from typing import NamedTuple

from replica_audit.report.advice.transaction_remedies import (
    abort_command,
    about_the_tool,
    hanging,
    standing,
    stops_consumers,
    to_be_saved,
    whose,
)
from replica_audit.report.facts.partition_facts import PartitionFacts
from replica_audit.report.text.partition_text import where

_MOST, _MOST_COMMANDS = 5, 50


class Hanging(NamedTuple):
    """Transactions that nobody will end: what they are, whom they stop, what to do first, and the commands that end them."""

    which: tuple[str, ...]
    short: str
    steps: tuple[str, ...]
    about_the_tool: str
    commands: tuple[str, ...]


def hanging_of(facts: PartitionFacts) -> Hanging | None:
    """What the page says of them; None if none is known to hang."""
    found = hanging(facts.transactions)
    if not found:
        return None
    return Hanging(
        tuple(f"{where(one)}: {whose(one)} {standing(one)}." for one in found[:_MOST]),
        stops_consumers(facts.transactions),
        tuple(to_be_saved(found, facts.topic, facts.partition)),
        about_the_tool(found),
        tuple(" ".join(abort_command(one, facts.topic, facts.partition)) for one in found[:_MOST_COMMANDS]),
    )
