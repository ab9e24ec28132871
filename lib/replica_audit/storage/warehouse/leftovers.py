"""What a process that was killed leaves of a table besides data files: a table that it had begun to create, temporary files of a log.

Neither Delta nor its VACUUM takes these away, and a directory that holds them cannot become a table.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

LOG = "_delta_log"
_STAGED = "_staged_commits"
# such as .00000000000000000007.json.4c2fb818-8be3-41d1-a66a-72282f397b7c.tmp, and the checksum of it
_TEMPORARY = re.compile(r"\.{1,2}\d{20}\..*\.tmp(\.crc)?")


def temporary_files(table: Path, seconds: float) -> tuple[Path, ...]:
    """The temporary files of a table's log that were written so many seconds ago or earlier: who wrote them is gone."""
    return tuple(path for path in _entries(table / LOG) if _TEMPORARY.fullmatch(path.name) and _age(path) >= seconds)


def is_begun(table: Path) -> bool:
    """Whether a directory is what a table begins with: a log without an entry and a checkpoint, and no file of data."""
    if not (table / LOG).is_dir() or any(table.glob("*.parquet")):
        return False
    return not any(path.suffix in (".json", ".crc", ".parquet") and not path.name.startswith(".") for path in _entries(table / LOG))


def clear_begun(table: Path, seconds: float) -> bool:
    """Clear away a table that was begun and got no first commit, if nothing was done in it for so many seconds.

    Only empty directories and temporary files go: what another process makes of the table meanwhile stays.

    Returns:
        Whether it is gone.
    """
    folders = (table / LOG / _STAGED, table / LOG)
    if any(_age(path) < seconds for path in (*folders, *_entries(table / LOG)) if path.exists()):
        return False
    for path in temporary_files(table, seconds):
        path.unlink(missing_ok=True)
    for path in folders:
        with suppress(OSError):  # not there, or not empty
            path.rmdir()
    return not (table / LOG).exists()


def _entries(folder: Path) -> Iterator[Path]:
    if folder.is_symlink():  # no log of a table, and nothing behind it is ours to remove
        return
    try:
        yield from sorted(folder.iterdir())
    except OSError:
        return


def _age(path: Path) -> float:
    """Seconds since a file or directory was changed; less than none if it is gone meanwhile."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return -1.0
