"""The place of a warehouse: a directory, a URI or a schema of a catalog. Can it be written, and what may others have planted there?"""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from replica_audit.errors import UsageError
from replica_audit.own_folder import followed_own_links, is_trusted
from replica_audit.rows import FORMER_TABLES, TABLES

LOG = "_delta_log"  # the folder of a table's log

_TRIED_BYTES = 1 << 20  # a disk with less than that is full
_NAME = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*")


def is_catalog_name(location: str) -> bool:
    """Whether a location is `catalog.schema`."""
    return _NAME.fullmatch(location) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPlace:
    """A directory that a run writes to: what it is called, and what else could serve in its place."""

    name: str
    path: Path
    instead: str


def warehouse_place(location: str) -> WrittenPlace | None:
    """The directory of a warehouse; None for a store or a catalog."""
    if is_catalog_name(location) or ("://" in location and not location.startswith("file:")):
        return None
    path = Path(location.removeprefix("file://").removeprefix("file:"))
    return WrittenPlace(name=f"warehouse {path}", path=path, instead="give another --warehouse")


def fault_of(path: Path) -> int | None:
    """The errno of writing a file of a mebibyte to a directory, which leaves nothing; None if it works."""
    try:
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(bytes(_TRIED_BYTES))
            file.flush()
    except OSError as error:
        return error.errno or errno.EIO
    return None


def refuse_planted(warehouse: Path) -> None:
    """Refuse a warehouse of which the folder, one of a table or one of a log is another user's, or a link.

    A link to the warehouse itself is followed if it is this user's, or root's. The owner of a warehouse that not every user may write to is
    trusted, and so are those of a group that may.

    Raises:
        UsageError: it names the link, or the folder, or says why it cannot be looked at.
    """
    try:
        root = followed_own_links("--warehouse", warehouse)
        trusted = _Trusted.by(root)
        tables = [root / table.name for table in (*TABLES, *FORMER_TABLES)]
        for path in (root, *tables, *(table / LOG for table in tables)):
            try:
                found = path.lstat()
            except (FileNotFoundError, NotADirectoryError):
                continue
            _refuse(path, found, trusted)
    except NotADirectoryError:
        return  # a file stands where a folder should: opening the warehouse says so
    except OSError as error:
        raise UsageError(f"--warehouse {warehouse}: {os.strerror(error.errno or 0)}: {error.filename}") from None


def refuse_links_below(table: Path) -> None:
    """Refuse a table whose folder is or holds a link, or a folder of another user: VACUUM of Delta removes old files behind links, too.

    Raises:
        UsageError: it names the link, or the folder.
        OSError: a folder cannot be listed.
    """
    trusted = _Trusted.by(table.parent)
    _refuse(table, table.lstat(), trusted)
    folders = [table]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_symlink() or entry.is_dir(follow_symlinks=False):
                    _refuse(Path(entry.path), entry.stat(follow_symlinks=False), trusted)
                    folders.append(Path(entry.path))


@dataclass(frozen=True, slots=True)
class _Trusted:
    """Whose folders are used besides those of this user and root: its owner's, and everybody's if a group shares the warehouse."""

    owner: int | None
    is_shared: bool

    @classmethod
    def by(cls, warehouse: Path) -> _Trusted:
        """What the folder of a warehouse says."""
        try:
            found = warehouse.stat()
        except FileNotFoundError:
            return cls(owner=None, is_shared=False)
        is_open = bool(found.st_mode & stat.S_IWOTH)
        return cls(owner=None if is_open else found.st_uid, is_shared=bool(found.st_mode & stat.S_IWGRP) and not is_open)


def _refuse(path: Path, found: os.stat_result, trusted: _Trusted) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise UsageError(f"{path} is a link, and nothing is written or removed through one in a warehouse: remove it")
    if not (is_trusted(found.st_uid) or trusted.is_shared or found.st_uid == trusted.owner):
        raise UsageError(
            f"{path} belongs to another user (uid {found.st_uid}), who may put links there: move it away, or give another --warehouse"
        )


def is_directory(given: str) -> bool:
    """Whether a place is a directory of this machine, and neither a URI nor a catalog's schema."""
    return "://" not in given and not is_catalog_name(given)


def given_warehouse(given: str) -> str:
    """The place: a directory, which need not be there yet, becomes absolute; `catalog.schema` and URIs stay as they are.

    Raises:
        UsageError: no warehouse can be there.
    """
    if not is_directory(given):
        return given
    path = Path(given).expanduser().absolute()
    refuse_planted(path)
    try:
        there = next(one for one in (path, *path.parents) if one.exists())
    except OSError as error:
        raise UsageError(f"--warehouse {given}: {error.strerror}") from None
    if not there.is_dir():
        raise UsageError(f"--warehouse {given}: {'' if there == path else f'{there} '}is a file, not a directory")
    if not os.access(there, os.W_OK | os.X_OK):
        why = errno.EROFS if os.statvfs(there).f_flag & os.ST_RDONLY else errno.EACCES
        raise UsageError(f"--warehouse {given}: {os.strerror(why)}: {there}; make it writable or give another --warehouse")
    return str(path)


def make_warehouse(given: str) -> str:
    """The place, and if it is a directory, that is there.

    Raises:
        UsageError: no warehouse can be there.
    """
    place = given_warehouse(given)
    if is_directory(place):
        try:
            Path(place).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--warehouse {given}: {error.strerror}") from None
    return place
