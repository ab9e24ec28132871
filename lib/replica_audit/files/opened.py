"""Opening files that others wrote: ordinary files only, without waiting, and none to which a link leads out of the folder it was given in.

Once `confine` knows the folders that were given, whatever is opened by a path below one of them must really lie in that folder. What was
opened is asked, not its name: a name may be another file by now.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from replica_audit.model import LINK_OUTSIDE

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_GET_PATH = getattr(fcntl, "F_GETPATH", None)  # macOS
_LONGEST_PATH = 1024  # of F_GETPATH


class RawReader(io.RawIOBase):
    """A stream of bytes, `at` one of them: what streams have in common that are read from any byte on."""

    at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position of the next byte."""
        return self.at


class NotAFileError(OSError):
    """A folder, a pipe, a socket or a device in the place of a file. It is not read: reading might never end, or do something."""

    remedy = "copy the file itself in its place"

    def __init__(self, path: str) -> None:
        """`path` is one."""
        super().__init__(errno.EINVAL, "is not a regular file", path)


class LinkOutsideError(OSError):
    """A link that leads out of the folder that was given."""

    code = LINK_OUTSIDE
    remedy = "copy what it leads to in its place; or give --follow-links, if nobody could write here who should not read what it leads to"

    def __init__(self, path: str, root: str) -> None:
        """`path` leads out of `root`."""
        super().__init__(errno.ELOOP, f"a link leads out of {root}: not followed without --follow-links", path)


_roots: dict[str, str] = {}  # folders as they were given, and by their real paths, each with its real path


def confine(folders: Iterable[Path]) -> None:
    """Follow no link out of these folders of this machine from now on. They may be links themselves: whoever gave them chose so."""
    for folder in folders:
        given, real = os.fspath(folder), _real_path_of_folder(folder)
        _roots[given] = _roots[real] = real


def release(folders: Iterable[Path]) -> None:
    """Follow links out of these folders again."""
    for folder in folders:
        _roots.pop(_roots.pop(os.fspath(folder), ""), None)


def confined() -> tuple[str, ...]:
    """The folders that links are not followed out of, for `confine_only` in another process."""
    return tuple(_roots)


def confine_only(folders: Iterable[str]) -> None:
    """Follow no link out of these folders, and out of no others that this process knew."""
    _roots.clear()
    confine(map(Path, folders))


def root_of(path: str) -> tuple[str, str] | None:
    """The innermost confined folder that a path lies in by its name, as it was given and its real path."""
    found = [root for root in _roots.items() if _is_within(path, root[0])]
    return max(found, key=lambda root: len(root[0]), default=None)


def leads_outside(path: str) -> LinkOutsideError | None:
    """The error of a path, links in which lead out of the confined folder that it lies in by its name; None if they do not.

    For names that are listed: the functions below ask what they have opened.
    """
    root = root_of(path)
    return LinkOutsideError(path, root[0]) if root is not None and not _is_within(os.path.realpath(path), root[1]) else None


def status(path: Path) -> os.stat_result:
    """Return what `Path.stat` does, but refuse a link that leads out of its confined folder.

    Raises:
        LinkOutsideError: it is such a link.
        OSError: it cannot be looked at.
    """
    found = path.lstat()
    if not stat.S_ISLNK(found.st_mode):
        return found
    if (error := leads_outside(os.fspath(path))) is not None:
        raise error
    return path.stat()


def open_descriptor(path: str | Path) -> int:
    """Open an ordinary file to be read.

    Raises:
        LinkOutsideError: it lies outside of the confined folder that its name is in.
        NotAFileError: it is a folder, a pipe, a socket or a device.
        OSError: it cannot be opened.
    """
    text = os.fspath(path)
    root = root_of(text)
    try:
        descriptor = _opened(text, root)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise NotAFileError(text) from None
        raise
    return _checked(descriptor, text, root)


def open_in(folder: int, name: str) -> int:
    """Open an ordinary file by its name in a folder of `open_folder`, as `open_descriptor` does."""
    try:
        descriptor = os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return open_descriptor(f"{_real_path_of(folder, '')}/{name}")
        if error.errno == errno.ENXIO:
            raise NotAFileError(name) from None
        raise
    return _checked(descriptor, name, None)  # it lies where the folder does


def open_folder(path: str | Path) -> int:
    """Open a folder to be listed, or to open files in it.

    Raises:
        LinkOutsideError: it lies outside of the confined folder that its name is in.
        OSError: it cannot be opened, or is no folder.
    """
    text = os.fspath(path)
    root = root_of(text)
    descriptor = os.open(text, _FLAGS | os.O_DIRECTORY)
    try:
        _refuse_outside(descriptor, text, root)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def open_file(path: str | Path, buffering: int = -1) -> BinaryIO:
    """A stream of the bytes of an ordinary file, as `open_descriptor` opens it."""
    return open(open_descriptor(path), "rb", buffering=buffering)


def _opened(path: str, root: tuple[str, str] | None) -> int:
    """Open a path; where it is a link out of its root, not even that: opening a device may do something."""
    if root is None:
        return os.open(path, _FLAGS)
    try:
        return os.open(path, _FLAGS | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
    real = os.path.realpath(path)
    if not _is_within(real, root[1]):
        raise LinkOutsideError(path, root[0])
    return os.open(real, _FLAGS | os.O_NOFOLLOW)


def _checked(descriptor: int, path: str, root: tuple[str, str] | None) -> int:
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotAFileError(path)
        _refuse_outside(descriptor, path, root)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _refuse_outside(descriptor: int, path: str, root: tuple[str, str] | None) -> None:
    if root is not None and not _is_within(_real_path_of(descriptor, path), root[1]):
        raise LinkOutsideError(path, root[0])


def _real_path_of(descriptor: int, path: str) -> str:
    """Where an open file lies; where the system does not tell, where its name leads now, if that is the same file."""
    try:
        if _GET_PATH is not None:
            return os.fsdecode(fcntl.fcntl(descriptor, _GET_PATH, bytes(_LONGEST_PATH)).rstrip(b"\0"))
        return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - of every file that is opened
    except OSError:
        real = os.path.realpath(path)
        return real if os.path.samestat(os.fstat(descriptor), os.stat(real)) else ""  # noqa: PTH116


def _real_path_of_folder(path: Path) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return os.path.realpath(path)  # what was given is a file, or cannot be opened
    try:
        return _real_path_of(descriptor, os.fspath(path))
    finally:
        os.close(descriptor)


def _is_within(path: str, root: str) -> bool:
    return path == root or path.startswith(root if root.endswith("/") else f"{root}/")
