"""For tests of what a user may not read: a child process without the rights of root, to whom permission bits mean nothing."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

_T = TypeVar("_T")
_NOBODY = 65534


def as_nobody(function: Callable[[], _T]) -> _T:
    """What the function returns to a user without rights; what it raises is raised here."""
    if os.getuid() != 0:
        return function()
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(_NOBODY)
            os.setuid(_NOBODY)
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
