"""Walking the folders below a broker: links followed once, and whatever is not an ordinary file or folder told, never opened."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from replica_audit.files.locations import StoredEntry, entries, real_path
from replica_audit.files.opened import leads_outside
from replica_audit.files.read_ahead import WalkedTree, walked
from replica_audit.model import CANNOT_READ, Problem

_READABLE = "give the user who runs the audit read permission on it, or copy it again"
_INDEX_CACHE = "remote-log-index-cache"  # of tiered storage: never a replica


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """One folder by names, sorted: its ordinary files, its folders, and what is neither (pipes, sockets, links to nothing)."""

    path: Path
    files: tuple[str, ...]
    folders: tuple[str, ...]
    others: tuple[str, ...]

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
        path, real = waiting.pop() if waiting else _followed(links.popleft())
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


def _followed(link: Path) -> tuple[Path, str]:
    return link, real_path(link)


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
            for entry in sorted(listed, key=_name):
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


def _name(entry: os.DirEntry[str] | StoredEntry) -> str:
    return entry.name


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
