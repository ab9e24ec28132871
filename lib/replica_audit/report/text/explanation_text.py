"""An explanation as text of 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from replica_audit.report.document import Block, Exact, Heading, Rows, Sentence
from replica_audit.report.facts.explanation import Explained
from replica_audit.report.layout.drawing import WIDTH
from replica_audit.report.layout.paragraphs import fitted, paragraph, printable
from replica_audit.report.sections.follower import OF_PROTOCOLS, SECTIONS, start_blocks
from replica_audit.report.sections.partition import PARTITION_SECTIONS, finding_blocks, leaderless_blocks, partition_head
from replica_audit.report.sections.to_do import to_do_blocks

_MOST = 10  # of a long list; the tables have all


def render(explained: Explained, *, protocols: bool = False) -> str:
    """What to do, what was found of the partition, each follower explained, then the partition; a line feed at the end.

    Args:
        explained: what to show.
        protocols: whether to show the outcome under the other protocols, too, and the steps of KIP-101.
    """
    facts = explained.partition
    sections = [one for one in SECTIONS if protocols or one not in OF_PROTOCOLS]
    told = [_text([leaderless_blocks(facts), finding_blocks(facts)])] if facts.findings else []
    told += [_text(section(one) for section in sections) for one in explained.followers]
    about = _text(section(facts, _MOST) for section in PARTITION_SECTIONS)
    if about or not explained.followers:
        told.append("\n\n".join(filter(None, [_text([partition_head(facts)]), about])))
    first = _text([to_do_blocks(explained), start_blocks(explained)])
    return (f"{first}\n\n" if first else "") + f"\n\n{'=' * WIDTH}\n".join(told) + "\n"


def _text(sections: Iterable[Iterator[Block]]) -> str:
    """Sections with an empty line between; one without blocks is left out."""
    made = ("\n".join(line.rstrip() for block in section for line in lines(block)) for section in sections)
    return "\n\n".join(filter(None, made))


def lines(block: Block) -> Iterator[str]:
    """A block in lines of 80 columns; what must not be broken may be longer."""
    match block:
        case Heading():
            yield printable(block.text)
        case Sentence():
            yield from paragraph(block.text, block.indent, block.label)
        case Rows():
            yield from fitted(block.head, block.cells)
        case Exact():
            yield from (f"{' ' * block.indent}{line}" for line in block.lines)
