"""A folder that an option names: new or empty, so that nothing is overwritten, and nothing is written outside."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from replica_audit.errors import OutputError, UsageError
from replica_audit.own_folder import open_no_link, open_own_folder, refuse_shared

_REMEDY = "give a new or empty folder, in a place that can be written"


def check_folder(flag: str, folder: Path | None) -> None:
    """Fail before the work, not after it.

    Raises:
        UsageError: `write_folder` could not write there, or others could replace what it writes; nothing was made.
    """
    if folder is None:
        return
    try:
        if folder.is_dir():
            if any(folder.iterdir()):
                raise UsageError(f"{flag} {folder}: is not empty; {_REMEDY}")
            target = folder
        elif folder.exists() or folder.is_symlink():
            raise UsageError(f"{flag} {folder}: is not a folder; {_REMEDY}")
        else:
            target = folder.absolute().parent
        if not target.is_dir() or not os.access(target, os.W_OK):
            raise UsageError(f"{flag} {folder}: cannot be made; {_REMEDY}")
        refuse_shared(f"{flag} {folder}" if target == folder else f"{flag} {folder}: its folder", target)
    except OSError as error:
        raise UsageError(f"{flag} {folder}: {error.strerror}; {_REMEDY}") from None


def write_folder(flag: str, folder: Path, files: Iterable[tuple[str, str, bool]]) -> None:
    """Write files, given as (name with `/` between folders, content, whether it is a script); none that there is already.

    Raises:
        OutputError: they cannot be written, or a name leads out of the folder.
    """
    try:
        top = open_own_folder(flag, folder)
        try:
            for name, content, executable in files:
                parts = PurePosixPath(name).parts
                if not parts or name.startswith("/") or any(part in ("", ".", "..") for part in parts):
                    raise OutputError(f"{flag} {folder}: {name!r} would lie outside of it")
                _write(top, parts, content, 0o755 if executable else 0o644)
        finally:
            os.close(top)
    except OSError as error:
        raise OutputError(f"{flag} {folder}: {error.strerror or error}; {_REMEDY}") from None


def _write(folder: int, parts: Sequence[str], content: str, mode: int) -> None:
    """Write a new file below an open folder."""
    if len(parts) > 1:
        with suppress(FileExistsError):
            os.mkdir(parts[0], dir_fd=folder)
        below = open_no_link(parts[0], folder)
        try:
            _write(below, parts[1:], content, mode)
        finally:
            os.close(below)
        return
    made = os.open(parts[0], os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)
    with os.fdopen(made, "w", encoding="utf-8", errors="surrogateescape", newline="") as stream:
        stream.write(content)
