"""What an earlier collection has whole and a newer one could not read: the last good copy of a disk that went bad may be the only one.

So `--replace` keeps the replaced collection in a hidden folder beside the new one if it has any of that. There is one such folder at most:
it stays while it has anything that neither of the later ones could read, else the next that is to be kept takes its place. Nothing else
removes it, for a file that can be read again need not be the one that it was: a disk may have been exchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from replica_audit.errors import MetadataError
from replica_audit.formats.collection.broker_folder import CollectedLogDir, log_dirs_of
from replica_audit.formats.collection.manifest import Manifest, utc_text


@dataclass(frozen=True, slots=True, kw_only=True)
class RetainedCollection:
    """The folder that is kept, and of when it is (`finished_at`, UTC).

    `has` are the files and folders that it has and the newest collection could not read, `gone` those that the collection just replaced had
    beside these: it was not kept. `replaces` is of when the collection is that was kept until now; None: none was, or it still is.
    """

    folder: Path
    finished_at: str
    has: tuple[str, ...]
    is_new: bool = False
    gone: tuple[str, ...] = ()
    replaces: str | None = None


def unread_paths(manifest: Manifest) -> set[str]:
    """Paths on the broker that a collection could not read."""
    return {one.path for one in (*manifest.unread, *(unread for said in manifest.log_dirs for unread in said.unread))}


def retained_collection(former: Path, unread: Collection[str], kept: Path) -> RetainedCollection | None:
    """Choose which of two earlier collections stays in the folder `kept`; None: neither.

    Args:
        former: folder of the replaced collection, if there is a whole one; the caller moves it to `kept` if the result `is_new`.
        unread: paths on the broker that the newest collection could not read.
        kept: folder of a collection that was kept earlier, if there is one.

    Raises:
        MetadataError, OSError: the one that was kept earlier cannot be read.
    """
    if not unread and not kept.exists():
        return None
    earlier = _Earlier(*log_dirs_of(kept)) if kept.exists() else None
    replaced = _replaced(former) if unread else None
    wanted = replaced.held(unread) if replaced is not None else set()
    if earlier is not None and (not wanted or (replaced is not None and earlier.held(_in_both(unread, unread_paths(replaced.manifest))))):
        has = earlier.held(unread)
        return RetainedCollection(folder=kept, finished_at=earlier.at, has=tuple(sorted(has)), gone=tuple(sorted(wanted - has)))
    if replaced is None or not wanted:
        return None
    before = None if earlier is None else earlier.at
    return RetainedCollection(folder=kept, finished_at=replaced.at, has=tuple(sorted(wanted)), is_new=True, replaces=before)


@dataclass(frozen=True, slots=True)
class _Earlier:
    manifest: Manifest
    log_dirs: Mapping[str, CollectedLogDir]

    @property
    def at(self) -> str:
        return utc_text(self.manifest.finished_at_ms)

    def held(self, paths: Iterable[str]) -> set[str]:
        """Subset of files and folders of the broker that the collection has; a folder counts if anything in it is there."""
        wanted = set(paths) - unread_paths(self.manifest)
        return {path for found in self.log_dirs.values() for path in _held(found, [one for one in wanted if _is_in(one, found.said.path)])}


def _replaced(former: Path) -> _Earlier | None:
    """Return the replaced collection; None if there is none, or a killed run has removed a part of it."""
    try:
        return _Earlier(*log_dirs_of(former))
    except (MetadataError, OSError):
        return None


def _in_both(unread: Collection[str], before: Collection[str]) -> set[str]:
    """Paths that neither of two collections could read; of a folder and a file in it, the file."""
    return {max(one, other, key=len) for one in unread for other in before if _is_in(one, other) or _is_in(other, one)}


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _held(found: CollectedLogDir, paths: Collection[str]) -> Iterator[str]:
    below = {path: tuple(path[len(found.said.path) + 1 :].split("/")) if path != found.said.path else () for path in paths}
    segments = _segments(found, {names[0] for names in below.values() if len(names) == 2})
    for path, names in below.items():
        replica = found.captured.get(names[0]) if names else None
        if not names:
            is_held = any(one.segments or one.files for one in found.said.replicas)
        elif len(names) == 1:
            is_held = bool(replica.segments or replica.files) if replica is not None else names[0] in found.said.files
        else:  # a small file, a segment, or what is copied beside the metadata log
            is_held = replica is not None and (names[1] in replica.files or path in segments)
            is_held = is_held or (found.folder / Path(*names)).is_file()
        if is_held:
            yield path


def _segments(found: CollectedLogDir, directories: Collection[str]) -> set[str]:
    """Paths of the segments of some replica directories; empty if their rows cannot be read."""
    if not directories:
        return set()
    try:
        return {file.path for files in found.of(directories.__contains__).segment_files().values() for file in files}
    except (OSError, MetadataError):
        return set()
