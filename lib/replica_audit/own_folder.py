"""Names that this program makes where others may write: it follows, takes over and removes nothing that it did not make.

A shared folder (`/tmp`, a group's backup) may hold a name before it is needed: a link to a broker's log directory, say.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from replica_audit.errors import UsageError

MARKER = ".made-by-replica-audit"  # in a folder that is not complete: what it holds may be removed


def refuse_foreign(flag: str, path: Path) -> None:
    """Refuse a name that is a link, or a folder of another user.

    Raises:
        UsageError: it is one of these.
        OSError: it cannot be looked at.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISLNK(found.st_mode):
        raise UsageError(f"{flag}: {path} is a link, and nothing is written or removed through one: remove it, or give another folder")
    if found.st_uid != os.geteuid():
        raise UsageError(
            f"{flag}: {path} belongs to another user (uid {found.st_uid}): move it away, or give a folder that only you can write"
        )


def refuse_shared(flag: str, folder: Path) -> None:
    """Refuse a folder in which anybody may rename what is made there: one that all may write, without the sticky bit that `/tmp` has.

    Raises:
        UsageError: it is such a folder.
        OSError: it cannot be looked at.
    """
    mode = folder.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise UsageError(f"{flag}: every user may write to {folder}, and replace what is made there: give a folder that only you can write")


def refuse_link_of_others(flag: str, path: Path) -> None:
    """Refuse a file that is another user's link, as the kernel does in sticky folders (fs.protected_symlinks).

    Raises:
        UsageError: it is one.
        OSError: it cannot be looked at.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISLNK(found.st_mode) and found.st_uid not in (os.geteuid(), 0):
        raise UsageError(f"{flag} {path}: is a link that another user made (uid {found.st_uid}); give another file")


def open_own(flag: str, folder: Path) -> int:
    """Make a folder that only this user can enter, or take over one that a killed run left, marked as ours; return its descriptor.

    Raises:
        UsageError: what is there is a link, another user's, or no folder of ours.
        OSError: it cannot be made.
    """
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        refuse_foreign(flag, folder)
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        names = os.listdir(opened)  # noqa: PTH208 - by its descriptor
        if names and MARKER not in names:
            shown = ", ".join(sorted(names)[:3])
            raise UsageError(f"{flag}: {folder} holds files that this command did not make ({shown}): move it away, or give another folder")
        if not names:
            os.close(os.open(MARKER, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=opened))
    except BaseException:
        os.close(opened)
        raise
    return opened


@contextmanager
def private_files() -> Iterator[None]:
    """Let only this user read what this process writes meanwhile: files 0600, folders 0700."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
