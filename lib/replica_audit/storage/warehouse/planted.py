"""Links and folders that another user planted in a warehouse on this machine: nothing is written or removed through them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from replica_audit.errors import UsageError
from replica_audit.own_folder import followed_own_links
from replica_audit.rows import FORMER_TABLES, TABLES
from replica_audit.storage.warehouse.leftovers import LOG


def refuse_planted(warehouse: Path) -> None:
    """Refuse a warehouse of which the folder, one of a table or one of a log is another user's, or a link.

    A link to the warehouse itself is followed if it is this user's, or root's.

    Raises:
        UsageError: it names the link, or the folder, or says why it cannot be looked at.
    """
    try:
        root = followed_own_links("--warehouse", warehouse)
        tables = [root / table.name for table in (*TABLES, *FORMER_TABLES)]
        for path in (root, *tables, *(table / LOG for table in tables)):
            try:
                found = path.lstat()
            except (FileNotFoundError, NotADirectoryError):
                continue
            _refuse(path, found)
    except NotADirectoryError:
        return  # a file lies above it, which whoever opens the warehouse tells in words of its own
    except OSError as error:
        raise UsageError(f"--warehouse {warehouse}: {os.strerror(error.errno or 0)}: {error.filename}") from None


def refuse_links_below(table: Path) -> None:
    """Refuse a table whose folder is or holds a link, or a folder of another user: VACUUM of Delta removes old files behind links, too.

    Raises:
        UsageError: it names the link, or the folder.
        OSError: a folder cannot be listed.
    """
    _refuse(table, table.lstat())
    folders = [table]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_symlink() or entry.is_dir(follow_symlinks=False):
                    _refuse(Path(entry.path), entry.stat(follow_symlinks=False))
                    folders.append(Path(entry.path))


def _refuse(path: Path, found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise UsageError(f"{path} is a link, and nothing is written or removed through one in a warehouse: remove it")
    if found.st_uid not in (os.geteuid(), 0):
        raise UsageError(
            f"{path} belongs to another user (uid {found.st_uid}), who may put links there: move it away, or give another --warehouse"
        )
