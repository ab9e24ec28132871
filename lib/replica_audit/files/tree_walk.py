"""Walking the folders below a broker: links followed once, and whatever is not an ordinary file or folder told, never opened."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replica_audit.files import object_store
from replica_audit.files.locations import StoredEntry, StoredPath, entries, real_path
from replica_audit.files.opened import leads_outside
from replica_audit.model import CANNOT_READ, Problem

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


_READABLE = "give the user who runs the audit read permission on it, or copy it again"
_INDEX_CACHE = "remote-log-index-cache"  # of tiered storage: never a replica


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """One folder by names, sorted: its ordinary files, its folders, and what is neither (pipes, sockets, links to nothing).

    `contents` are those of files that are kept elsewhere, by their names.
    """

    path: Path
    files: tuple[str, ...]
    folders: tuple[str, ...]
    others: tuple[str, ...]
    contents: Mapping[str, bytes] = field(default_factory=dict, compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Everything in it."""
        return (*self.files, *self.folders, *self.others)


def walk(
    top: Path, report: Callable[[Problem], None], enters: Callable[[Folder], bool], begins: Callable[[str], bool] = lambda name: False
) -> Iterator[Folder]:
    """Every folder from `top` down, parents first, each once: links to folders come last, and only where they lead to new ones.

    Args:
        top: where to begin.
        report: takes what cannot be read or is left out: folders without permission, names that are not UTF-8, hidden folders, links to
            folders that are read already, links out of the input that the caller does not open.
        enters: whether the folders of a folder are walked, too.
        begins: whether the caller opens a file of this name before it asks for the next folder.
    """
    with walked(top, begins) as tree:
        for folder, linked in _walk(top, report, enters, tree):
            _report_outside(folder, linked, begins, report)
            yield folder


def _report_outside(folder: Folder, linked: frozenset[str], begins: Callable[[str], bool], report: Callable[[Problem], None]) -> None:
    for name in sorted(linked.intersection(folder.files)):
        if not begins(name) and (error := leads_outside(str(folder.path / name))) is not None:
            report(cannot_read(folder.path / name, "file", error))


def _walk(
    top: Path, report: Callable[[Problem], None], enters: Callable[[Folder], bool], tree: WalkedTree | None
) -> Iterator[tuple[Folder, frozenset[str]]]:
    read: dict[str, Path] = {}  # by where they really are
    waiting, links = [(top, real_path(top))], deque[Path]()
    while waiting or links:
        path, real = waiting.pop() if waiting else (link := links.popleft(), real_path(link))
        if real in read:
            report(_linked_again(path, read[real]))
            continue
        read[real] = path
        if tree is not None:
            tree.approach(path)
        folder, linked = _listed(path, report, tree)
        yield folder, linked
        below = [name for name in folder.folders if _is_entered(path, name, report)] if enters(folder) else []
        links.extend(path / name for name in below if name in linked)
        waiting += [(path / name, os.path.join(real, name)) for name in reversed(below) if name not in linked]  # noqa: PTH118


def _is_entered(parent: Path, name: str, report: Callable[[Problem], None]) -> bool:
    if name.startswith("."):
        report(_problem(parent / name, "hidden-folder", "a hidden folder is not read", "give it as a separate --input if you want it"))
    return not name.startswith(".") and name != _INDEX_CACHE


def _linked_again(path: Path, first: Path) -> Problem:
    if first in path.parents:
        return _problem(path, "link-loop", "a link that leads back to a folder above it", "remove the link")
    return _problem(path, "link-loop", f"a link to a folder that is already read as {first}", "none: each folder is read once")


def _listed(path: Path, report: Callable[[Problem], None], tree: WalkedTree | None) -> tuple[Folder, frozenset[str]]:
    """A folder, and which names in it are links."""
    files: list[str] = []
    folders: list[str] = []
    others: list[str] = []
    links: list[str] = []
    try:
        with entries(path) if tree is None else nullcontext(tree.entries(path)) as listed:
            for entry in sorted(listed, key=lambda entry: entry.name):
                name = entry.name
                if not name.isascii() and (shown := name.encode("utf-8", "replace").decode()) != name:
                    report(_problem(path / shown, "name-not-utf8", "the name is not UTF-8; it is left out", "rename it"))
                    continue
                is_folder, is_file = _kind(entry)
                (folders if is_folder else files if is_file else others).append(name)
                if entry.is_symlink():
                    links.append(name)
    except OSError as error:
        report(cannot_read(path, "directory", error))
    return Folder(path=path, files=tuple(files), folders=tuple(folders), others=tuple(others)), frozenset(links)


def _kind(entry: os.DirEntry[str] | StoredEntry) -> tuple[bool, bool]:
    """Whether an entry is, or leads to, a folder; and whether an ordinary file. The system asks a disk only where it is a link."""
    try:
        return entry.is_dir(), entry.is_file()
    except OSError:
        return False, False


def _problem(path: Path, code: str, detail: str, remedy: str) -> Problem:
    return Problem(path=str(path), kind="directory", code=code, detail=detail, remedy=remedy)


def cannot_read(path: Path, kind: str, error: OSError) -> Problem:
    """What an operating system error on a file or folder is told as."""
    return Problem(path=str(path), kind=kind, code=code_of(error), detail=error.strerror or str(error), remedy=remedy_of(error))


def code_of(error: OSError) -> str:
    """The code of a file or folder that cannot be read."""
    return getattr(error, "code", CANNOT_READ)


def remedy_of(error: OSError) -> str:
    """What to do about a file or folder that cannot be read."""
    return getattr(error, "remedy", _READABLE)
