"""A run for a terminal: the blocks of the summary as tables, with colours that tell what they say again."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from replica_audit.errors import visible
from replica_audit.report.facts.run_report import Report
from replica_audit.report.layout.paragraphs import CommandLine
from replica_audit.report.text.blocks import Block, Grid, Notes, blocks, ending, problems, problems_title

_STYLES = {"critical": "bold red", "error": "red", "warning": "yellow"}
_OF_EXIT = {0: "green", 1: "red", 2: "red", 3: "yellow"}


def renderable(report: Report, given: Collection[str] = ()) -> RenderableType:
    """The whole summary. Names are shown as they are, also in other scripts, except control characters.

    Args:
        report: of the run.
        given: options that the command had; what comes next does not name them again.
    """
    return Group(*_all(report, given))


def _all(report: Report, given: Collection[str]) -> Iterator[RenderableType]:
    for block in blocks(report):
        yield _title(block.title)
        yield Padding(Group(*_laid_out(block)), (0, 0, 1, 2))
    if report.problem_count:
        yield _title(problems_title(report))
        for problem in problems(report):
            yield Padding(
                Group(_text(problem.title, "bold"), *(Padding(_text(line), (0, 0, 0, 2)) for line in problem.lines)), (0, 0, 0, 2)
            )
        yield Text()
    *lines, last = ending(report, given)
    for line in lines:
        yield _command(line) if line.startswith("  ") else _text(line)
    yield _text(last, _OF_EXIT[report.exit_code])


def _laid_out(block: Block) -> Iterator[RenderableType]:
    if isinstance(block, Notes):
        yield from (_text(line, "dim") for line in block.exact)
        if block.items:
            items = Table.grid()
            for head, text in block.items:
                items.add_row(_text(head), _text(text))
            yield items
        yield from (_command(line) if isinstance(line, CommandLine) else _text(line) for line in block.lines)
    else:
        yield from _grid(block)
        if block.legend:
            yield _text(block.legend, "dim")


def _grid(grid: Grid) -> Iterator[RenderableType]:
    for part in grid.parts:
        if part.label:
            yield _text(part.label, _STYLES.get(part.severity, ""))
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=0)
        for place, name in enumerate(grid.header):
            # what can be shortened in plain text is folded here: a terminal has the lines for it
            table.add_column(name, justify="right" if place in grid.right else "left", overflow="fold", no_wrap=place not in grid.shrinks)
        for row in part.rows:
            table.add_row(*map(_text, row))
        yield Padding(table, (0, 0, 0, 2))


def _title(text: str) -> Text:
    return _text(text, "bold")


def _command(line: str) -> Text:
    """A line that is to be copied: the terminal may fold it, which puts no line feed into it."""
    return Text(visible(line), no_wrap=True, overflow="ignore")


def _text(text: str, style: str = "") -> Text:
    return Text(visible(text), style=style)
