"""The files and folders that options name: checked before the work, written whole after it; a folder is new or empty."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from replica_audit.errors import OutputError, UsageError
from replica_audit.own_folder import followed_own_links, open_no_link, open_own_folder, open_to_write, refuse_file_of_another, refuse_shared

_REMEDY = "give a file that can be written"


def check(flag: str, path: Path | None) -> None:
    """Fail before the work, not after it.

    Raises:
        UsageError: `write` could not write there; nothing was made.
    """
    if path is None:
        return
    try:
        place = followed_own_links(flag, path.absolute())
        is_usable = not place.is_dir() and place.parent.is_dir()
        if place.exists() and not place.is_file() and not place.is_symlink():
            refuse_file_of_another(flag, path, place.stat())
        # a file is replaced, anything else is written to
        target = place if place.exists() and not place.is_file() else place.parent
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
    try:
        place = followed_own_links(flag, path.absolute())  # what a link leads to is written, the link stays
        if place.exists() and not place.is_file():  # a pipe, a terminal, /dev/null
            _write(_opened(flag, place), pieces)
            return
        folder = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _replace(folder, place.name, pieces)
        finally:
            os.close(folder)
    except OSError as error:
        raise OutputError(f"{flag} {path}: {error.strerror or error}; {_REMEDY}") from None


def _opened(flag: str, path: Path) -> int:
    """Open what is no file, without waiting for whoever is to read a pipe."""
    try:
        fd = open_to_write(flag, path, os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OutputError(f"{flag} {path}: a pipe that nobody reads; start its reader first, or give a file") from None
        raise
    os.set_blocking(fd, True)
    return fd


def _replace(folder: int, name: str, pieces: str | Iterable[str]) -> None:
    made = f".{name}.{secrets.token_hex(4)}"
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=folder)
    try:
        _write(descriptor, pieces)
        os.replace(made, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(made, dir_fd=folder)
        raise


def _write(descriptor: int, pieces: str | Iterable[str]) -> None:
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
        stream.writelines([pieces] if isinstance(pieces, str) else pieces)


_FOLDER_REMEDY = "give a new or empty folder, in a place that can be written"


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
                raise UsageError(f"{flag} {folder}: is not empty; {_FOLDER_REMEDY}")
            target = folder
        elif folder.exists() or folder.is_symlink():
            raise UsageError(f"{flag} {folder}: is not a folder; {_FOLDER_REMEDY}")
        else:
            target = folder.absolute().parent
        if not target.is_dir() or not os.access(target, os.W_OK):
            raise UsageError(f"{flag} {folder}: cannot be made; {_FOLDER_REMEDY}")
        refuse_shared(f"{flag} {folder}" if target == folder else f"{flag} {folder}: its folder", target)
    except OSError as error:
        raise UsageError(f"{flag} {folder}: {error.strerror}; {_FOLDER_REMEDY}") from None


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
                _write_below(top, parts, content, 0o755 if executable else 0o644)
        finally:
            os.close(top)
    except OSError as error:
        raise OutputError(f"{flag} {folder}: {error.strerror or error}; {_FOLDER_REMEDY}") from None


def _write_below(folder: int, parts: Sequence[str], content: str, mode: int) -> None:
    """Write a new file below an open folder."""
    if len(parts) > 1:
        with suppress(FileExistsError):
            os.mkdir(parts[0], dir_fd=folder)
        below = open_no_link(parts[0], folder)
        try:
            _write_below(below, parts[1:], content, mode)
        finally:
            os.close(below)
        return
    made = os.open(parts[0], os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)
    with os.fdopen(made, "w", encoding="utf-8", errors="surrogateescape", newline="") as stream:
        stream.write(content)
