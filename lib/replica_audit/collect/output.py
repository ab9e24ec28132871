"""The folder that a collection is written to: under a hidden name until all of it is on disk, then renamed."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow.parquet as pq

from replica_audit.collect.retained_collection import RetainedCollection, retained_collection, unread_paths
from replica_audit.errors import MetadataError, OutputError, UsageError
from replica_audit.formats.collection.manifest import MANIFEST, Manifest, content, read
from replica_audit.formats.log_dir.names import kept_name, unfinished_name
from replica_audit.own_folder import MARKER, empty, open_own, refuse_foreign, refuse_shared, remove_own

_RESERVE = 1 << 30  # bytes that stay free on a disk that the broker writes to, too


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise errors of writing the output as OutputError, apart from errors of reading the broker's files.

    Raises:
        OutputError: instead of OSError.
    """
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror or error}") from error


def abandon(writer: pq.ParquetWriter) -> None:
    """Keep a writer from completing its file when it is collected as garbage."""
    writer.is_open = False


class Output:
    """A collection that is being written. `folder` holds it until `finish`, and a lock, which ends with the process."""

    def __init__(self, root: Path, broker_id: int, *, replace: bool, log_dirs: Sequence[Path]) -> None:
        """Create the folder, and remove what a killed run left in it.

        Args:
            root: in which the collection appears as `broker-ID`.
            broker_id: of the broker.
            replace: whether an earlier collection there is replaced.
            log_dirs: of the broker; nothing may be written to them.

        Raises:
            UsageError: the target exists, another run is writing it, or it lies in a log directory.
            OutputError: it cannot be made.
        """
        self.target = root / f"broker-{broker_id}"
        self.folder = root / unfinished_name(broker_id)
        self._replaced = root / f"{unfinished_name(broker_id)}.replaced"
        self._kept = root / kept_name(broker_id)
        _refuse_log_dirs(self.target, log_dirs)
        with writing(root):
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with writing(root):
                refuse_shared(f"--output {root}", self._root)
                for path in (self.target, self.folder, self._replaced, self._kept):
                    refuse_foreign(f"--output {root}", path)
            self._lock = self._lock_folder()
        except BaseException:
            os.close(self._root)
            raise
        try:
            self._check_collection(self._kept)
            self._check_replaced()
            self._restore()
            existing = self._check_collection(self.target)
            if existing is not None and not replace:
                raise UsageError(
                    f"{self.target} is a collection already, of broker {existing.broker_id}: "
                    "give --replace to replace it, or another --output"
                )
            self._shared = any(_device(path) == os.fstat(self._lock).st_dev for path in log_dirs)
            with writing(self.folder):
                empty(self._lock)
        except BaseException:
            self.abandon()
            raise

    def _lock_folder(self) -> int:
        with writing(self.folder):
            lock = open_own(f"--output {self.target.parent}", self.folder)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise UsageError(f"--output {self.target.parent}: another collect is writing {self.target.name} there; wait for it") from None
        except OSError:
            pass  # a file system without locks
        return lock

    def _restore(self) -> None:
        """Undo or complete the replacement that a killed run left half done."""
        if self._replaced.exists():
            existing = self._check_collection(self.target)
            with writing(self._replaced):
                if existing is not None:
                    self._retire_replaced(existing)
                else:
                    self._rename(self._replaced, self.target)

    def _retire_replaced(self, newest: Manifest) -> RetainedCollection | None:
        """Remove the collection that `newest` replaced, or keep it in the hidden folder."""
        try:
            kept = retained_collection(self._replaced, unread_paths(newest), self._kept)
        except MetadataError as error:
            raise OutputError(f"{self._kept}: {error.reason}") from None
        if kept is not None and kept.is_new:
            if self._kept.exists():  # under a name that the next run clears, should this one be killed
                aside = open_own(f"--output {self._kept.parent}", self.folder)
                try:
                    os.rename(self._kept.name, self._kept.name, src_dir_fd=self._root, dst_dir_fd=aside)
                finally:
                    os.close(aside)
            self._rename(self._replaced, self._kept)
            os.fsync(self._root)
        elif self._replaced.exists():
            remove_own(self._root, self._replaced.name)
        return kept

    def _rename(self, path: Path, to: Path) -> None:
        os.rename(path.name, to.name, src_dir_fd=self._root, dst_dir_fd=self._root)

    def _check_replaced(self) -> None:
        """Refuse a folder in the place of the collection that a killed run was replacing or removing, if it is neither."""
        if self._replaced.exists() and any(self._replaced.iterdir()) and not (self._replaced / MARKER).exists():
            self._check_collection(self._replaced)

    @staticmethod
    def _check_collection(path: Path) -> Manifest | None:
        """Return the manifest of the collection at a path; None if nothing is there."""
        if not os.path.lexists(path):
            return None
        try:
            return read(path / MANIFEST)
        except (MetadataError, OSError) as error:
            why = error.reason if isinstance(error, MetadataError) else error.strerror or str(error)
            raise UsageError(
                f"{path} exists and is not a collection ({MANIFEST}: {why}); it is left alone: move it away, or give another --output"
            ) from None

    def make_folder(self, path: Path) -> None:
        """Create a folder of the collection.

        Raises:
            OutputError: it cannot be made.
        """
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)

    def write(self, path: Path, what: bytes) -> None:
        """Write a small file of the collection.

        Raises:
            OutputError: it cannot be written.
        """
        with writing(path):
            path.write_bytes(what)

    def remove(self, path: Path) -> None:
        """Remove a folder of the collection, if it exists.

        Raises:
            OutputError: it cannot be removed.
        """
        with writing(path):
            if path.exists():
                shutil.rmtree(path)

    def check_room(self) -> None:
        """Check that enough is free on a disk that the broker writes to, too.

        Raises:
            OutputError: too little is free.
        """
        if self._shared:
            room = os.statvfs(self.folder)
            if room.f_bavail * room.f_frsize < _RESERVE:
                raise OutputError(
                    f"less than {_RESERVE >> 30} GiB is free where {self.target} and a log directory of the broker are; "
                    "give an --output on another disk"
                )

    def finish(self, manifest: Manifest) -> RetainedCollection | None:
        """Write the manifest, sync everything, and rename the folder; return the earlier collection that is kept.

        Raises:
            OutputError: that cannot be done.
        """
        with writing(self.folder):
            for path, _folders, files in os.walk(self.folder, topdown=False):
                for name in files:
                    _sync(Path(path) / name)
                _sync(Path(path))
            self.write(self.folder / MANIFEST, content(manifest))
            _sync(self.folder / MANIFEST)
            _sync(self.folder)
        with writing(self.target):
            if self.target.exists():
                self._rename(self.target, self._replaced)
            self._rename(self.folder, self.target)
            with suppress(FileNotFoundError):
                os.unlink(MARKER, dir_fd=self._lock)
            os.fsync(self._root)
            kept = self._retire_replaced(manifest)
            if self.folder.exists():
                remove_own(self._root, self.folder.name)
        self._close()
        return kept

    def _close(self) -> None:
        for descriptor in (self._lock, self._root):
            os.close(descriptor)

    def abandon(self) -> None:
        """Remove everything that was written."""
        with suppress(OSError):
            remove_own(self._root, self.folder.name)
        with suppress(OSError):
            self._close()


def _refuse_log_dirs(target: Path, log_dirs: Sequence[Path]) -> None:
    real = Path(os.path.realpath(target))
    for log_dir in log_dirs:
        of_log_dir = Path(os.path.realpath(log_dir))
        if real.is_relative_to(of_log_dir):
            raise UsageError(
                f"--output {target.parent}: lies in the log directory {log_dir}, and a broker does not start with a folder there that is "
                "not a replica: give a directory outside of it"
            )
        if of_log_dir.is_relative_to(real):
            raise UsageError(f"--output {target.parent}: the log directory {log_dir} lies in {target}: give another directory")


def _device(path: Path) -> int | None:
    try:
        return path.stat().st_dev
    except OSError:
        return None


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
