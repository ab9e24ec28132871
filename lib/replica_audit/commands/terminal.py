"""Where output goes: a terminal gets tables, colours and a bar of progress, anything else plain text."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from replica_audit.commands.command import show, tell
from replica_audit.commands.progress_file import ProgressLines
from replica_audit.errors import visible
from replica_audit.progress import ProgressEvent, ProgressKind, TellsEvent

if TYPE_CHECKING:
    from replica_audit.report.facts.run_report import Report

_WIDEST = 140  # beyond this the eye loses the row


def show_report(report: Report, given: Collection[str] = ()) -> None:
    """Print the summary of a run; what comes next does not name the options that were given."""
    from replica_audit.report.text import plain_text as text

    columns = _columns(sys.stdout)
    if columns is None:
        show(text.render(report, given))
        return
    from rich.console import Console

    from replica_audit.report.text.rich_text import renderable

    # NO_COLOR is honoured by the library
    console = Console(width=columns, force_terminal=True, legacy_windows=False)
    with console.capture() as captured:
        console.print(renderable(report, given))
    show(captured.get())


@contextmanager
def progress() -> Iterator[TellsEvent]:
    """Where to tell what is going on: a bar below the lines on a terminal, else the lines alone."""
    columns = _columns(sys.stderr)
    try:
        terminal = None if columns is None else open("/dev/tty", "w", encoding="utf-8")  # noqa: PTH123, SIM115
    except OSError:
        terminal = None
    if terminal is None:
        yield ProgressLines(tell).take
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    with terminal:
        console = Console(file=terminal, width=columns, force_terminal=True)
        shown = (SpinnerColumn(), TextColumn("tasks"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Bar(*shown, console=console, transient=True, refresh_per_second=4) as bar:
            task = bar.add_task("tasks", total=None)
            lines = ProgressLines(lambda line: console.print(Text(visible(line)), highlight=False))

            def take(event: ProgressEvent) -> None:
                if event.kind is ProgressKind.COUNTED:
                    bar.update(task, completed=event.done, total=event.total)
                else:
                    lines.take(event)

            yield take


def _columns(stream: TextIO) -> int | None:
    """How wide the terminal is that a stream leads to; None where there is none, or one that knows no more than text."""
    if os.environ.get("TERM") == "dumb" or not stream.isatty():
        return None
    from shutil import get_terminal_size

    return min(get_terminal_size().columns, _WIDEST)
