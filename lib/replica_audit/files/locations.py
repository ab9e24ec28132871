"""Where files are: on this machine, or in an object store. The one place that tells them apart.

A location in a store is a `Path`, so that whoever reads files need not know: what is read through it are ranges, never a whole object.

    s3://BUCKET/KEY, s3a://, s3n://           S3, and what speaks its protocol: see `object_store`
    gs://, abfs://, abfss://, hdfs://         as pyarrow.fs.FileSystem.from_uri opens them
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path, PosixPath
from typing import IO, Any, BinaryIO, cast

from replica_audit.files import object_store
from replica_audit.files.opened import open_file, open_folder

SCHEMES = ("s3", "s3a", "s3n", "gs", "abfs", "abfss", "hdfs")
_BUFFER = 1 << 20  # a request costs as much time as some hundred KiB


def located(text: str) -> Path:
    """A path, or a URI of one of SCHEMES, as a path that can be opened."""
    return StoredPath(text) if text.partition("://")[0] in SCHEMES and "://" in text else Path(text)


def is_stored(path: Path) -> bool:
    """Whether a path is in an object store, which knows of no inodes and few times."""
    return isinstance(path, StoredPath)


def opened(path: Path, buffering: int = -1) -> BinaryIO:
    """A stream of the bytes of a file that others wrote, seekable; of this machine as `opened.open_file` opens it.

    Raises:
        LinkOutsideError, NotAFileError, OSError: it cannot be opened.
    """
    if isinstance(path, StoredPath):
        return cast(BinaryIO, path.open("rb", buffering=buffering))
    return open_file(path, buffering)


def real_path(path: Path) -> str:
    """A path without symbolic links, of which a store has none."""
    return str(path) if isinstance(path, StoredPath) else os.path.realpath(path)


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """What `os.DirEntry` is, in a store."""

    name: str
    path: str
    is_folder: bool
    size: int

    def is_symlink(self) -> bool:
        """Never."""
        return False

    def is_dir(self) -> bool:
        """Whether it is the beginning of other names."""
        return self.is_folder

    def is_file(self) -> bool:
        """Whether it is an object."""
        return not self.is_folder

    def stat(self) -> os.stat_result:
        """Kind and size; nothing else is known."""
        return _status(self.is_folder, self.size)


def entries(folder: Path) -> AbstractContextManager[Iterator[os.DirEntry[str] | StoredEntry]]:
    """What is in a folder, in any order, to be used in a `with`. By their names: an `os.DirEntry` of an open folder has no other `path`.

    Raises:
        OSError: it cannot be listed.
    """
    return nullcontext(folder.entries()) if isinstance(folder, StoredPath) else _local_entries(folder)


@contextmanager
def _local_entries(folder: Path) -> Iterator[Iterator[os.DirEntry[str]]]:
    descriptor = open_folder(folder)
    try:
        with os.scandir(descriptor) as found:
            yield found
    finally:
        os.close(descriptor)


class StoredPath(PosixPath):
    """A path in an object store: what of `Path` looks at files asks the store.

    Everything that fails raises `OSError` with a sentence as its `strerror`.
    """

    def __str__(self) -> str:
        scheme, *rest = self.parts or ("",)
        return f"{scheme}//{'/'.join(rest)}"

    def entries(self) -> Iterator[StoredEntry]:
        """What is in a folder."""
        found = object_store.listing(str(self))
        return iter([StoredEntry(name, str(self / name), is_folder, size) for name, is_folder, size in found])

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Kind and size."""
        return _status(*object_store.kind_and_size(str(self)))

    def is_symlink(self) -> bool:
        """Never."""
        return False

    def exists(self, *, follow_symlinks: bool = True) -> bool:
        """Whether there is an object or a folder of this name."""
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether there is an object of this name."""
        return self.exists() and stat.S_ISREG(self.stat().st_mode)

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether there are objects below this name."""
        return self.exists() and stat.S_ISDIR(self.stat().st_mode)

    def iterdir(self) -> Iterator[StoredPath]:  # type: ignore[override]
        """The paths in a folder."""
        return (self / entry.name for entry in self.entries())

    def open(self, mode: str = "r", buffering: int = -1, *_text: Any, **_more: Any) -> IO[Any]:  # type: ignore[override]
        """Open an object to read its bytes; a buffer of less than one MiB would be a waste of requests."""
        if mode != "rb":
            raise OSError(errno.EROFS, f"is only read here, not opened in mode {mode!r}", str(self))
        stream = io.BufferedReader(cast(io.RawIOBase, object_store.opened(str(self))), max(buffering, _BUFFER))
        return cast(IO[Any], stream)

    def read_bytes(self) -> bytes:
        """A whole object, which should be small."""
        with self.open("rb") as stream:
            return cast(bytes, stream.read())


def _status(is_folder: bool, size: int) -> os.stat_result:
    mode = stat.S_IFDIR | 0o555 if is_folder else stat.S_IFREG | 0o444
    return os.stat_result((mode, 0, 0, 1, 0, 0, size, 0, 0, 0))
