"""The files that options name: looked at before the work, written whole after it."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from replica_audit.errors import OutputError, UsageError
from replica_audit.own_folder import refuse_link_of_others

_REMEDY = "give a file that can be written"


def check(flag: str, path: Path | None) -> None:
    """Fail before the work, not after it.

    Raises:
        UsageError: `write` could not write there; nothing was made.
    """
    if path is None:
        return
    try:
        refuse_link_of_others(flag, path)
        is_usable = not path.is_dir() and path.absolute().parent.is_dir()
        # a file is replaced, anything else is written to
        target = path.resolve() if path.exists() and not path.is_file() else path.resolve().parent
    except OSError as error:
        raise UsageError(f"{flag} {path}: {error.strerror}; {_REMEDY}") from None
    if not is_usable:
        why = "a directory" if path.is_dir() else f"there is no directory {path.parent}"
        raise UsageError(f"{flag} {path}: not a file in an existing directory: {why}; {_REMEDY}")
    if not os.access(target, os.W_OK):
        raise UsageError(f"{flag} {path}: no permission to write; {_REMEDY}")


def write(flag: str, path: Path, pieces: str | Iterable[str]) -> None:
    """Write a file, a text or its pieces in order, so that a reader finds the old one or the whole new one.

    Raises:
        OutputError: it cannot be written.
    """
    made: Path | None = None
    try:
        refuse_link_of_others(flag, path)
        path = path.resolve()  # what a link leads to is written, the link stays
        if path.exists() and not path.is_file():  # a pipe, a terminal, /dev/null
            with open(_opened(flag, path), "w", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
                _write(stream, pieces)
            return
        made = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        with made.open("x", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
            _write(stream, pieces)
        made.replace(path)
        made = None
    except OSError as error:
        raise OutputError(f"{flag} {path}: {error.strerror or error}; {_REMEDY}") from None
    finally:
        if made is not None:
            made.unlink(missing_ok=True)


def _opened(flag: str, path: Path) -> int:
    """Open what is no file, without waiting for whoever is to read a pipe."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OutputError(f"{flag} {path}: a pipe that nobody reads; start its reader first, or give a file") from None
        raise
    os.set_blocking(fd, True)
    return fd


def _write(stream: TextIO, pieces: str | Iterable[str]) -> None:
    stream.writelines([pieces] if isinstance(pieces, str) else pieces)
