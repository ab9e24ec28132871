"""The earlier collection that `--since` names, used if it is of the same broker and was read by the same code.

What an operator got wrong is refused: a folder of another broker or cluster. What may be in any night is said, and all is read: there is
none yet, it was copied in part, a disk damaged it, another release wrote it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from replica_audit.collect.origin import Origin
from replica_audit.collect.previous_rows import PreviousRows
from replica_audit.errors import MetadataError, UsageError
from replica_audit.formats.collection.broker_folder import CollectedLogDir
from replica_audit.formats.collection.manifest import MANIFEST, CapturedLogDir, Manifest, read
from replica_audit.program import digest_of_code

# of the package what reading a segment imports, and what it could: changed code that does not matter costs one full collection
ROOMS = ("collect", "errors", "files", "formats", "frozen", "garbage", "model", "own_folder", "protocol", "rows", "words")


def reading_code() -> str:
    """A digest of the sources that decide what the rows of a segment hold, in hexadecimal digits."""
    return digest_of_code(ROOMS)


_ALL_IS_READ = "every segment is read"


class Previous:
    """An earlier collection of the broker: the manifest, and the rows of each log directory that is whole; `opened` are those in use."""

    def __init__(self, folder: Path, manifest: Manifest, tell: Callable[[str], None]) -> None:
        self.folder, self.manifest = folder, manifest
        self._tell = tell
        self.opened: list[PreviousRows] = []

    def rows_of(self, path: Path, directory_id: str | None) -> PreviousRows | None:
        """Return the rows of a log directory, found by its path, else by its id; None if they cannot be used.

        Args:
            path: of the log directory on the broker.
            directory_id: what its `meta.properties` says.
        """
        entry = _entry_of(self.manifest.log_dirs, str(path), directory_id)
        if entry is None:
            self._tell(f"{self.folder}: it has no log directory {path}; {_ALL_IS_READ} there")
            return None
        log_dir = CollectedLogDir(folder=self.folder / entry.folder, said=entry)
        try:
            rows = PreviousRows(log_dir)
        except OSError as error:
            reason = error.strerror or str(error)
            self._tell(f"{log_dir.store}: {reason}; {_ALL_IS_READ} in {path}, and the new collection will be whole")
            return None
        self.opened.append(rows)
        return rows

    def close(self) -> None:
        """Close its files."""
        for rows in self.opened:
            rows.close()


def _entry_of(log_dirs: Sequence[CapturedLogDir], path: str, directory_id: str | None) -> CapturedLogDir | None:
    by_path = next((one for one in log_dirs if one.path == path), None)
    return by_path or next((one for one in log_dirs if directory_id and one.directory_id == directory_id), None)


def previous_of(since: Path, origin: Origin, tell: Callable[[str], None]) -> Previous | None:
    """Open the earlier collection in a folder, or in the folder `broker-ID` below it.

    Args:
        since: the folder `broker-ID` of a collection, or that which holds it.
        origin: identity of the broker that is collected now.
        tell: takes a line for a person where nothing can be reused.

    Returns:
        None if every segment has to be read.

    Raises:
        UsageError: it is not a folder, or the collection is of another broker or cluster.
    """
    if os.path.lexists(since) and not since.is_dir():
        raise UsageError(f"--since {since}: is not a directory; give an earlier collection of broker {origin.broker_id}, or its --output")
    folder = since if os.path.lexists(since / MANIFEST) else since / f"broker-{origin.broker_id}"
    path = folder / MANIFEST
    try:
        manifest = read(path)
    except FileNotFoundError:
        where = f"{path}: there is none" if folder.is_dir() else f"--since {since}: no collection of broker {origin.broker_id} yet"
        tell(f"{where}; {_ALL_IS_READ}")
        return None
    except (OSError, MetadataError) as error:
        reason = error.reason if isinstance(error, MetadataError) else error.strerror or str(error)
        tell(f"{path}: {reason}; {_ALL_IS_READ}, and the new collection can be the next --since")
        return None
    _refuse_other(path, manifest, origin)
    if manifest.reading_code != reading_code():
        tell(f"{path}: another release of this program collected it, which may have read segments differently; {_ALL_IS_READ} this once")
        return None
    return Previous(folder, manifest, tell)


def _refuse_other(path: Path, manifest: Manifest, origin: Origin) -> None:
    if manifest.broker_id != origin.broker_id:
        raise UsageError(
            f"--since: {path} is of broker {manifest.broker_id}, and broker {origin.broker_id} is collected; give one of that broker"
        )
    if manifest.cluster_id and origin.cluster_id and manifest.cluster_id != origin.cluster_id:
        raise UsageError(
            f"--since: {path} is of a broker of cluster {manifest.cluster_id}, and that of cluster {origin.cluster_id} is collected; "
            "give a collection of that one"
        )
