"""The folders below one input, each listed once, however many links lead to it, and no more of them than a bound."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from replica_audit.files.locations import StoredEntry, entries, real_path
from replica_audit.files.opened import leads_outside
from replica_audit.files.tree_walk import cannot_read
from replica_audit.model import Problem

MOST_FOLDERS = 20_000  # directories below one input, replicas left out: a bound for what is no copy of brokers


def is_printable(name: str) -> bool:
    """Whether a name is UTF-8."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


class ListedFolders:
    """Listings of folders, by where they really are; `is_partial`: there were more than are listed."""

    def __init__(self, problems: list[tuple[str | None, Problem]], most: int) -> None:
        """Report to `problems`, with a cluster id of None. At most so many directories are listed."""
        self._problems = problems
        self._most = most
        self.is_partial = False
        self._listed: dict[str, tuple[list[str], list[str]]] = {}
        self._reals: dict[Path, str] = {}
        self._places: dict[tuple[str, str], str] = {}  # of a name in a folder
        self._is_too_many = False

    def entries(self, path: Path) -> tuple[list[Path], list[str]]:
        """Directories (links to them too) and names of files; what cannot be listed is reported and counts as empty."""
        return list(self.directories(path)), self.files(path)

    def directories(self, path: Path) -> Iterator[Path]:
        """The first part of `entries`, each made when it is asked for: of a log directory there may be a hundred thousand."""
        return (path / name for name in self._names(path)[0])

    def files(self, path: Path) -> list[str]:
        """The second part of `entries`."""
        return self._names(path)[1]

    def _names(self, path: Path) -> tuple[list[str], list[str]]:
        real = self.real(path)
        if real not in self._listed:
            directories: list[str] = []
            files: list[str] = []
            self.is_partial = self.is_partial or len(self._listed) >= self._most
            if not self.is_partial:
                try:
                    with entries(path) as listed:
                        for entry in listed:
                            if not is_printable(entry.name):
                                continue  # told when the broker's files are read
                            if (error := _folder_outside(path, entry)) is not None:
                                self.cannot_read(path / entry.name, error)
                            else:
                                (directories if _is_directory(path, entry) else files).append(entry.name)
                except OSError as error:
                    self.cannot_read(path, error)
            else:
                self._told_once(path)
            self._listed[real] = (sorted(directories), sorted(files))
        return self._listed[real]

    def listed_files(self, path: Path) -> list[str]:
        """The names of files in a folder, if that was listed before."""
        return self._listed.get(self.real(path), ([], []))[1]

    def real(self, path: Path) -> str:
        """Where a folder really is, asked once."""
        if path not in self._reals:
            parent = self._reals.get(path.parent)
            if parent is None:
                self._reals[path] = real_path(path)
            else:
                place = (parent, path.name)
                if place not in self._places:
                    self._places[place] = real_path(path)
                self._reals[path] = self._places[place]
        return self._reals[path]

    def _told_once(self, path: Path) -> None:
        if not self._is_too_many:
            self._is_too_many = True
            detail = f"the input has more than {self._most} folders beside replicas: nothing shows which of the remaining ones are brokers'"
            remedy = "give a directory that holds one folder per broker and nothing else"
            self._problems.append((None, Problem(path=str(path), kind="directory", code="too-many-folders", detail=detail, remedy=remedy)))

    def cannot_read(self, path: Path, error: OSError) -> None:
        """Report a folder, or a file in one, that cannot be read; once."""
        problem = cannot_read(path, "directory", error)
        if (None, problem) not in self._problems:
            self._problems.append((None, problem))


def _folder_outside(folder: Path, entry: os.DirEntry[str] | StoredEntry) -> OSError | None:
    """The error of an entry that is a link to a directory out of the input; one to a file is told by whoever reads the file."""
    try:
        return leads_outside(str(folder / entry.name)) if entry.is_symlink() and entry.is_dir() else None
    except OSError:
        return None


def _is_directory(folder: Path, entry: os.DirEntry[str] | StoredEntry) -> bool:
    """Whether an entry of a folder is a directory, and no link back to one that it lies in."""
    try:
        if entry.is_symlink() and os.path.realpath(folder / entry.name) in _and_above(os.path.realpath(folder)):
            return False
        return entry.is_dir()
    except OSError:
        return False


def _and_above(real: str) -> set[str]:
    return {real, *(str(parent) for parent in Path(real).parents)}
