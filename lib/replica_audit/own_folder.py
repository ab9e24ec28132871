"""Names that this program makes where others may write: it follows, takes over and removes nothing that it did not make.

A shared folder (`/tmp`, a group's backup) may hold a name before it is needed: a link to a broker's log directory, say.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from replica_audit.errors import UsageError

_WRITING = os.O_WRONLY | os.O_CLOEXEC
_MOST_LINKS = 40  # as the kernel follows
MARKER = ".made-by-replica-audit"  # in a folder that is not complete: what it holds may be removed


def is_trusted(owner: int) -> bool:
    """Whether a file's owner is this user, root, or whoever became this user by sudo."""
    return owner in (os.geteuid(), 0) or str(owner) == os.environ.get("SUDO_UID")


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


def refuse_shared(flag: str, folder: int | Path) -> None:
    """Refuse a folder that every user may write to, unless it is sticky, and its owner is trusted: who owns it may rename all the same.

    A folder that only its owner, or a group, may write to is used, whoever that is: root in a container writes to such folders.

    Raises:
        UsageError: it is such a folder.
        OSError: it cannot be looked at.
    """
    found = os.stat(folder)  # noqa: PTH116 - an open folder, or its path
    if not found.st_mode & stat.S_IWOTH:
        return
    if not found.st_mode & stat.S_ISVTX:
        raise UsageError(f"{flag}: every user may write to it, and replace what is made there: give a folder that only you can write")
    if not is_trusted(found.st_uid):
        raise UsageError(
            f"{flag}: belongs to another user (uid {found.st_uid}), who may replace what is made there: give a folder that only you can "
            "write, or one in it that is not there yet"
        )


def followed_own_links(flag: str, path: Path) -> Path:
    """Where a file is to be written, if need be where links of this user, or of root, lead to; it is no link, but those to open pipes.

    Raises:
        UsageError: another user made one of them: the kernel refuses that in sticky folders only (fs.protected_symlinks).
        OSError: it cannot be looked at, or they lead nowhere.
    """
    for _ in range(_MOST_LINKS):
        try:
            found = path.lstat()
        except FileNotFoundError:
            return path
        if not stat.S_ISLNK(found.st_mode):
            return path
        if found.st_uid not in (os.geteuid(), 0):
            raise UsageError(f"{flag} {path}: is a link that another user made (uid {found.st_uid}); give another path")
        target = path.parent / path.readlink()
        if path.exists() and not os.path.lexists(target):
            return path  # of /proc: what it names is no path
        if os.path.samestat(found, path.lstat()):  # else it is another link by now
            path = target
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def refuse_file_of_another(flag: str, path: Path, found: os.stat_result) -> None:
    """Refuse to write into what another user made where every user may make files, to read it there; terminals are excepted.

    Raises:
        UsageError: so it is.
    """
    is_foreign = not is_trusted(found.st_uid) and not stat.S_ISCHR(found.st_mode)
    if is_foreign and path.parent.stat().st_mode & stat.S_IWOTH:
        raise UsageError(f"{flag} {path}: belongs to another user (uid {found.st_uid}); give another file")


def open_to_write(flag: str, path: Path, flags: int = 0) -> int:
    """Open a file that is written in place, and made if it is not there, as `followed_own_links` finds it; return its descriptor.

    Raises:
        UsageError: it is another user's link, file or pipe.
        OSError: it cannot be opened.
    """
    target = followed_own_links(flag, path)
    try:
        opened = os.open(target, _WRITING | os.O_CREAT | os.O_NOFOLLOW | flags & ~os.O_TRUNC, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        opened = os.open(target, _WRITING | flags & ~os.O_TRUNC)  # a descriptor of this process, whoever made its pipe
        if stat.S_ISREG(os.fstat(opened).st_mode):
            os.close(opened)
            raise
        return opened
    try:
        found = os.fstat(opened)
        refuse_file_of_another(flag, path, found)
        if flags & os.O_TRUNC and stat.S_ISREG(found.st_mode):
            os.ftruncate(opened, 0)
    except BaseException:
        os.close(opened)
        raise
    return opened


def open_anew(path: Path) -> int:
    """Open a file that nobody else has made, for writing; what has its name, such as a killed run left, goes. Return its descriptor.

    Raises:
        OSError: it cannot be made, or somebody makes it meanwhile.
    """
    path.unlink(missing_ok=True)
    return os.open(path, _WRITING | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)


def open_no_link(folder: str | Path, parent: int | None = None) -> int:
    """Open a folder, by its name in an open one if `parent` is given; return its descriptor.

    Raises:
        OSError: it is a link, no folder, or cannot be opened.
    """
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)


def open_own_folder(flag: str, folder: Path, mode: int = 0o777) -> int:
    """Make a folder, or open the one of this user that is there; return its descriptor, by which to make and remove what is in it.

    Raises:
        UsageError: what is there is a link, or another user's.
        OSError: it cannot be made.
    """
    try:
        folder.mkdir(mode=mode)
    except FileExistsError:
        refuse_foreign(flag, folder)
    opened = open_no_link(folder)
    if os.fstat(opened).st_uid != os.geteuid():
        os.close(opened)
        refuse_foreign(flag, folder)
        raise UsageError(f"{flag}: somebody else replaces {folder} meanwhile; give a folder that only you can write")
    return opened


def open_own(flag: str, folder: Path) -> int:
    """Make a folder that only this user can enter, or take over one that a killed run left, marked as ours; return its descriptor.

    Raises:
        UsageError: what is there is a link, another user's, or no folder of ours.
        OSError: it cannot be made.
    """
    opened = open_own_folder(flag, folder, 0o700)
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


def remove_own(folder: int, name: str) -> None:
    """Remove a folder of this program in an open folder. It is marked first, and its mark goes last: what a kill leaves is still ours.

    Raises:
        OSError: it is not there, a link, or cannot be removed.
    """
    opened = open_no_link(name, folder)
    try:
        os.close(os.open(MARKER, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=opened))
        empty(opened)
        os.unlink(MARKER, dir_fd=opened)
    finally:
        os.close(opened)
    os.rmdir(name, dir_fd=folder)


def empty(folder: int) -> None:
    """Remove everything in an open folder but its mark; of links only themselves.

    Raises:
        OSError: something cannot be removed.
    """
    for name in os.listdir(folder):
        if name == MARKER:
            continue
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            shutil.rmtree(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)


@contextmanager
def private_files() -> Iterator[None]:
    """Let only this user read what this process writes meanwhile: files 0600, folders 0700."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
