"""A walk below a folder of a store: everything is listed at once, and threads read the beginnings of files before they are asked for.

One request after the other, a folder and a file at a time, would take a walk below a hundred thousand files an hour.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from replica_audit.files import object_store
from replica_audit.files.locations import StoredEntry, StoredPath

_READERS = 16  # requests at a time: a store answers many as fast as one
_AHEAD = 64  # files of which the beginning is held, of 64 KiB each at most


class WalkedTree:
    """What is known ahead of one walk. Used by the thread that walks."""

    def __init__(self, listed: object_store.Listings, begins: Callable[[str], bool]) -> None:
        """Take every folder below the top, and which names of files will be opened."""
        self._listed, self._begins = listed, begins
        self._pool = ThreadPoolExecutor(_READERS)
        self._folders: deque[str] = deque()  # that were looked ahead to, in the order of the walk
        self._files: deque[str] = deque()  # of them, that nobody reads yet; in the order of the walk
        self._wanted: dict[str, set[str]] = {}  # by folder, files that nobody has opened
        self._begun: dict[str, Future[Any]] = {}

    def entries(self, folder: Path) -> Iterator[StoredEntry]:
        """What is in a folder; nothing of one that is not there any more."""
        return iter([StoredEntry(name, str(folder / name), is_folder, size) for name, is_folder, size in self._listed.get(str(folder), ())])

    def approach(self, folder: Path) -> None:
        """Read ahead in a folder, which is walked now, and in those right below it, which come next; what lies before it is passed."""
        here = str(folder)
        while self._folders and self._folders[0].split("/") < here.split("/"):
            self._drop(self._folders.popleft())
        if not self._folders or self._folders[0] != here:
            self._look_ahead([here])
        own = [self._files.popleft() for _file in range(len(self._wanted[here])) if self._files and _folder(self._files[0]) == here]
        self._folders.popleft()
        self._look_ahead([f"{here}/{name}" for name, is_folder, _size in sorted(self._listed.get(here, ())) if is_folder])
        self._folders.appendleft(here)
        self._files.extendleft(reversed(own))
        self._fill()

    def _look_ahead(self, folders: list[str]) -> None:
        """Put folders, in order, before all others."""
        self._folders.extendleft(reversed(folders))
        files: list[str] = []
        for folder in folders:
            named = sorted(name for name, is_folder, size in self._listed.get(folder, ()) if size and not is_folder and self._begins(name))
            uris = [f"{folder}/{name}" for name in named]
            self._wanted[folder] = set(uris)
            files += uris
        for uri in files:
            object_store.read_ahead(uri, self.take)
        self._files.extendleft(reversed(files))

    def take(self, uri: str) -> Any | None:
        """The opened file, if it was read ahead; None if the caller is faster."""
        self._wanted[_folder(uri)].discard(uri)
        future = self._begun.pop(uri, None)
        self._fill()
        return None if future is None else future.result()

    def _drop(self, folder: str) -> None:
        for uri in self._wanted.pop(folder):
            object_store.forget_ahead(uri)
            if (future := self._begun.pop(uri, None)) is not None:
                future.cancel()

    def _fill(self) -> None:
        while self._files and len(self._begun) < _AHEAD:
            uri = self._files.popleft()
            if uri in self._wanted.get(_folder(uri), ()):
                self._begun[uri] = self._pool.submit(object_store.begun, uri)

    def close(self) -> None:
        """Drop what nobody has asked for."""
        for folder in list(self._wanted):
            self._drop(folder)
        self._pool.shutdown(wait=True, cancel_futures=True)


def _folder(uri: str) -> str:
    return uri.rpartition("/")[0]


@contextmanager
def walked(top: Path, begins: Callable[[str], bool]) -> Iterator[WalkedTree | None]:
    """What is known ahead of a walk below a folder; None if it is one of this machine, or cannot be listed at once."""
    if not isinstance(top, StoredPath):
        yield None
        return
    with object_store.listed_below(str(top)) as listed:
        if listed is None:
            yield None
            return
        tree = WalkedTree(listed, begins)
        try:
            yield tree
        finally:
            tree.close()
