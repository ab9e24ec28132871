"""For tests of what a user may not read: a child process without the rights of root, to whom permission bits mean nothing."""

from __future__ import annotations

import ctypes
import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

_T = TypeVar("_T")
_NOBODY = 65534
ANOTHER = 12345
_CAPABILITY_VERSION_3 = 0x20080522
_OVERRIDES = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


def as_nobody(function: Callable[[], _T]) -> _T:
    """What the function returns to a user without rights; what it raises is raised here."""
    return _in_child(function, _become_nobody)


def bound_by_modes(function: Callable[[], _T]) -> _T:
    """The same of this user, whom permission bits then bind though it be root."""
    return _in_child(function, _drop_overrides)


def give_away(path: Path) -> None:
    """Let ANOTHER own a file or a folder; the test is skipped where this user may not: only root may."""
    try:
        os.chown(path, ANOTHER, -1)
    except PermissionError:
        pytest.skip("only root can give a file or a folder away")


def _become_nobody() -> None:
    os.setgroups([])
    os.setgid(_NOBODY)
    os.setuid(_NOBODY)


def _drop_overrides() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, of the first 32 and of the others
    if libc.capget(header, sets):
        raise OSError(ctypes.get_errno(), "capget")
    for place in range(3):
        sets[place] &= ~_OVERRIDES
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset")


def _in_child(function: Callable[[], _T], give_up: Callable[[], None]) -> _T:
    if os.getuid() != 0:
        return function()
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            give_up()
            try:
                answer: tuple[object, BaseException | None] = (function(), None)
            except BaseException as error:  # noqa: BLE001 - handed to the parent
                answer = (None, error)
            with os.fdopen(sending, "wb") as stream:
                pickle.dump(answer, stream)
        finally:
            os._exit(0)
    os.close(sending)
    with os.fdopen(receiving, "rb") as stream:
        content = stream.read()
    os.waitpid(child, 0)
    value, raised = pickle.loads(content)  # noqa: S301 - our own child's
    if raised is not None:
        raised.add_note("raised without the rights of root")
        raise raised
    return value  # type: ignore[no-any-return]


@contextmanager
def open_to_all() -> Iterator[Path]:
    """A directory that another user may enter, unlike pytest's; removed at the end, whatever rights were taken away in it."""
    parent = Path(tempfile.mkdtemp())
    parent.chmod(0o755)
    try:
        yield parent
    finally:
        for path in parent.rglob("*"):
            if not path.is_symlink():
                path.chmod(0o755)
        shutil.rmtree(parent)
