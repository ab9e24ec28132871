"""Two copies of one broker in an input, of which one is judged, and brokers that share the id of a directory; problems name all."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from replica_audit.errors import MetadataError
from replica_audit.formats.collection.collection_manifest import MANIFEST, read
from replica_audit.model import Problem
from replica_audit.partition.known.log_directories import OtherCopy, SharedId

COPIED_TWICE = "two-copies-of-a-broker"
_REMEDY = "give each copy of the broker in an input of its own, or leave the older one out; keep both until nobody needs their records"


def of_log_directories(found: Sequence[OtherCopy]) -> Iterator[Problem]:
    """A problem for each log directory that is a copy of another one."""
    for one in found:
        same = "have the same directory.id" if one.has_same_id else "hold the same partitions"
        yield Problem(
            path=one.path,
            kind="directory",
            code=COPIED_TWICE,
            detail=f"two copies of broker {one.broker_id}: {one.judged} and {one.path} {same}. The first is judged, as the high watermarks "
            "that it has written down reach farther or as far",
            remedy=_REMEDY,
        )


def of_shared_ids(found: Sequence[SharedId]) -> Iterator[Problem]:
    """A problem for each `directory.id` that several brokers have: one of the files, or the whole directory, is another broker's."""
    for one in found:
        named = " and ".join(f"{path} of broker {broker}" for broker, path in one.directories)
        yield Problem(
            path=one.directories[-1][1],
            kind="directory",
            code="directory-id-of-two-brokers",
            detail=f"{named} have the same directory.id, {one.directory_id}: each is read as its broker's, and one is another's",
            remedy="copy both meta.properties again; if the brokers' are the same, the second broker cannot register with the controller",
        )


def without_older_collections(brokers: Sequence[tuple[Path, int]]) -> tuple[set[Path], list[Problem]]:
    """Folders of a broker that was collected again into another one, and why they are left out.

    Both name the broker's own files, so that only one of them can be read; the one that was finished last.

    Args:
        brokers: every folder with its broker.
    """
    finished: defaultdict[int, list[tuple[int, Path]]] = defaultdict(list)
    times = Counter(broker for _path, broker in brokers)
    for path, broker in brokers:
        if times[broker] > 1 and (at := _finished_at_ms(path)) is not None:
            finished[broker].append((at, path))
    older: set[Path] = set()
    problems = []
    for broker, collections in finished.items():
        newest = max(collections)[1]
        for _at, path in sorted(collections):
            if path != newest:
                older.add(path)
                detail = f"two collections of broker {broker}: {newest} and {path}. The first, which was finished later, is judged"
                problems.append(Problem(path=str(path), kind="directory", code=COPIED_TWICE, detail=detail, remedy=_REMEDY))
    return older, problems


def _finished_at_ms(folder: Path) -> int | None:
    """When a collection was finished; None if the folder is none, or its manifest cannot be read, which its listing tells."""
    try:
        return read(folder / MANIFEST, lambda _directory: False).finished_at_ms
    except (MetadataError, OSError):
        return None
