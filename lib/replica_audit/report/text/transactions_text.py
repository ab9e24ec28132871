"""The transactions that are open at the end of the leader's log: whom they stop, what is known of each, how those that hang are ended."""

from __future__ import annotations

from collections.abc import Iterator

from replica_audit.report.advice.transaction_remedies import (
    abort_command,
    about_the_tool,
    coordinator,
    elsewhere,
    hanging,
    since,
    standing,
    stops_consumers,
    to_be_saved,
    whose,
)
from replica_audit.report.facts.partition_facts import PartitionFacts
from replica_audit.report.layout.left_out import whole_in
from replica_audit.report.layout.paragraphs import offsets, paragraph
from replica_audit.rows.transactions import TransactionFacts
from replica_audit.words import count

TITLE = "Open transactions"
HEAD = ("offsets", "whose", "since", "state", "coordinator", "on other replicas")
_MOST, _LINE = 10, 66


def transaction_lines(facts: PartitionFacts) -> Iterator[str]:
    """Those that hang first; the commands stand on lines of their own, to be copied."""
    if not facts.transactions:
        return
    yield TITLE
    yield from paragraph(stops_consumers(facts.transactions))
    found = hanging(facts.transactions)
    shown = [*found, *(one for one in facts.transactions if not one.hangs_because)][:_MOST]
    for one in shown:
        begun = f", {since(one)}" if since(one) else ""
        yield from paragraph(f"{where(one)}: {whose(one)}{begun}. It {standing(one)}.", first="- ")
        about = f"{coordinator(one)}; {'; '.join(elsewhere(one)) or 'no other replica shows it'}"
        yield from paragraph(f"{about[:1].upper()}{about[1:]}.", 4)
    if len(facts.transactions) > _MOST:
        left = count(len(facts.transactions) - _MOST, "more transaction")
        yield from paragraph(f"{left} {whole_in('the table open_transactions', facts.warehouse)}")
    for step in to_be_saved(found, facts.topic, facts.partition):
        yield from paragraph(step)
    if found:
        yield from paragraph(f"To end {'it' if len(found) == 1 else 'those that hang'}:")
    for one in found[:_MOST]:
        tool, what = abort_command(one, facts.topic, facts.partition)
        yield f"    {tool} \\"
        yield from (f"      {part}" for part in _in_lines(what))
    if found and about_the_tool(found):
        yield from paragraph(about_the_tool(found))


def _in_lines(arguments: str) -> list[str]:
    """The arguments of a command as lines that a shell takes for one."""
    first, *others = arguments.split(" --")
    lines = [first]
    for argument in others:
        if len(lines[-1]) + len(argument) > _LINE:
            lines[-1] += " \\"
            lines.append(f"--{argument}")
        else:
            lines[-1] += f" --{argument}"
    return lines


def transaction_row(one: TransactionFacts) -> tuple[str, ...]:
    """The cells below HEAD."""
    return (
        where(one).removeprefix("Offsets ").removeprefix("Offset "),
        whose(one),
        since(one).removeprefix("since "),
        standing(one),
        coordinator(one),
        "; ".join(elsewhere(one)) or "none shows it",
    )


def where(one: TransactionFacts) -> str:
    """Its offsets."""
    return offsets(one.first_offset, one.last_offset + 1).capitalize()
