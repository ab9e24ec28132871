"""A run as plain text of 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from replica_audit.report.facts.run_report import Report
from replica_audit.report.layout.paragraphs import CommandLine, paragraph, printable
from replica_audit.report.text.blocks import Block, Grid, Notes, blocks, ending, problems, problems_title, widths

WIDTH = 80


def render(report: Report, given: Collection[str] = ()) -> str:
    """The whole summary, a line feed at its end. What a terminal cannot show, or obeys, stands in it as escapes.

    Args:
        report: of the run.
        given: options that the command had; what comes next does not name them again.
    """
    lines: list[str] = []
    for block in blocks(report):
        lines += [*_laid_out(block), ""]
    if report.problem_count:
        lines.append(problems_title(report))
        for problem in problems(report):
            lines += [f"  {printable(problem.title)}", *(part for line in problem.lines for part in _wrapped(line, "    "))]
        lines.append("")
    lines += map(printable, ending(report, given))
    return "\n".join(lines) + "\n"


def _laid_out(block: Block) -> Iterator[str]:
    yield printable(block.title)
    if isinstance(block, Notes):
        yield from (f"  {printable(line)}" for line in block.exact)
        for head, text in block.items:
            yield from paragraph(text, first=head)
        for line in block.lines:
            if isinstance(line, CommandLine):
                yield f"  {printable(line)}"
                continue
            yield from _wrapped(line.lstrip(), "  " + " " * (len(line) - len(line.lstrip())))
    else:
        yield from _grid(block)


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(printable(text), WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _grid(given: Grid) -> Iterator[str]:
    grid = replace(given, parts=tuple(replace(part, rows=tuple(tuple(map(printable, row)) for row in part.rows)) for part in given.parts))
    across = widths(grid, WIDTH - 4)
    for part in grid.parts:
        if part.label:
            yield f"  {part.label}"
        for row in (grid.header, *part.rows):
            # a name that is shortened stands above its row, whole, to be copied
            yield from (f"    {row[i]}" for i in sorted(grid.shrinks) if across[i] < len(row[i]) <= WIDTH - 4)
            yield f"    {_row(row, across, grid.right)}".rstrip()
    if grid.legend:
        yield from _wrapped(grid.legend)


def _row(cells: Sequence[str], across: Sequence[int], right: frozenset[int]) -> str:
    short = [_shortened(cell, width) for cell, width in zip(cells, across, strict=True)]
    return "  ".join(
        cell.rjust(width) if i in right else cell.ljust(width) for i, (cell, width) in enumerate(zip(short, across, strict=True))
    )


def _shortened(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    tail = (width - 2) * 2 // 3
    return f"{text[: width - 2 - tail]}..{text[-tail:]}"
