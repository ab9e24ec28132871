"""`manifest.json`, which `collect` writes last: what it took, when, from where, and what it could not read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from replica_audit.errors import MetadataError
from replica_audit.formats.log_dir.names import CLEANER_OFFSETS, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, replica_directory
from replica_audit.formats.log_dir.small_files import DOCUMENT_LIMIT, whole_content
from replica_audit.frozen import made_quickly
from replica_audit.model import SecondLook

# The fields of a JSON document that may hold anything, each read as what it has to be.

INT32, INT64 = 2**31, 2**63


class Fields:
    """One object of the document; `where` names it in errors, with its number if there are several."""

    __slots__ = ("_number", "_where", "values")

    def __init__(self, values: Mapping[str, Any], where: str, number: int | None = None) -> None:
        self.values = values
        self._where, self._number = where, number

    def _refuse(self, name: str, what: str) -> MetadataError:
        return MetadataError(f"{name} of {self._named()} is not {what}")

    def _named(self) -> str:
        """Only in errors: there may be a hundred thousand objects."""
        return self._where if self._number is None else f"{self._where} {self._number}"

    def integer(self, name: str, bound: int = INT64) -> int:
        """A number in [0, bound)."""
        value = self.values.get(name)
        if type(value) is not int or not 0 <= value < bound:  # not `isinstance`, which takes true and false
            raise self._refuse(name, "a number that it can be")
        return value

    def text(self, name: str) -> str:
        """A string that can be written to a table."""
        value = self.values.get(name)
        if not isinstance(value, str) or not _is_text(value):
            raise self._refuse(name, "a text")
        return value

    def optional_text(self, name: str) -> str | None:
        """A string, or None."""
        return None if self.values.get(name) is None else self.text(name)

    def file_name(self, name: str) -> str:
        """The name of something right in a folder, not a path out of it."""
        value = self.text(name)
        if not _is_file_name(value):
            raise self._refuse(name, "the name of a folder")
        return value

    def file_names(self, name: str) -> tuple[str, ...]:
        """Names of files right in a folder."""
        value = self.values.get(name)
        if not isinstance(value, list) or not all(isinstance(item, str) and _is_often_named(item) for item in value):
            raise self._refuse(name, "a list of file names")
        return tuple(value)

    def time(self, name: str) -> int:
        """A time, in milliseconds."""
        try:
            return round(datetime.fromisoformat(self.text(name)).timestamp() * 1000)
        except (ValueError, OverflowError):
            raise self._refuse(name, "a time") from None

    def objects(self, name: str, wanted: Callable[[Mapping[str, Any]], bool] | None = None) -> list[Fields]:
        """Objects, all or those that are wanted."""
        value = self.values.get(name)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self._refuse(name, "a list of objects")
        where = f"{self._named()}: {name}"
        return [Fields(item, where, number) for number, item in enumerate(value, start=1) if wanted is None or wanted(item)]

    def mapping(self, name: str) -> dict[str, Any]:
        """An object as it stands; empty if it is missing."""
        value = self.values.get(name) or {}
        if not isinstance(value, dict):
            raise self._refuse(name, "an object")
        return value


def _is_file_name(text: str) -> bool:
    return "/" not in text and "\0" not in text and text not in ("", ".", "..") and _is_text(text)


_is_often_named = lru_cache(maxsize=1 << 10)(_is_file_name)  # the same few names in every replica directory


def _is_text(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


# `manifest.json`, which `collect` writes last: what it took, when, from where, and what it could not read.
# A folder that has one is whole. Files are named by where they lay on the broker. It vouches for the other files of the collection by
# their digests, and ends with one of its own: against accidents and careless edits, not against those who write a new one.

SEGMENTS_FILE = "segments.parquet"
SMALL_FILES_FILE = "small-files.parquet"
MANIFEST = "manifest.json"
FORMAT = "replica-audit collection"
VERSION = 2
_READ = (1, VERSION)  # in version 1 the small files of replicas were files of their own
T = TypeVar("T")
_SEAL = b',\n "digest": "'  # behind everything else
OFFSETS = {
    "high_watermark": HIGH_WATERMARKS,
    "recovery_point": RECOVERY_POINTS,
    "log_start_offset": LOG_STARTS,
    "cleaner_offset": CLEANER_OFFSETS,
}


class UnknownVersionError(MetadataError):
    """A manifest of a format that this release does not know; `remedy` is that of the problem that it becomes."""

    remedy = "upgrade this installation, if a later release collected it; copying or collecting again does not help"

    def __init__(self, version: object) -> None:
        """It says that it is of some version."""
        said = f"version {version}" if type(version) is int else "no version"
        super().__init__(f"its format is {said}, and this release reads {' and '.join(map(str, _READ))}: a later one may have made it")


def is_collected_log_dir(names: tuple[str, ...] | list[str]) -> bool:
    """Whether a folder with files of these names is a log directory of a collection, whole or not."""
    return SEGMENTS_FILE in names or SMALL_FILES_FILE in names


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A file or directory that could not be read. `kind` is that of `model.Problem`."""

    path: str
    kind: str
    reason: str


@made_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedReplica:
    """One replica directory.

    `capture` marks its rows in `segments.parquet`: rows of other captures are left-overs. `captured_at_ms`: its log ends where it ended
    then. `later` are the entries of the offset checkpoints that had changed since the files were copied, by the names of OFFSETS.
    `files` are the small files that were copied; `is_copied`: its segments were copied whole, too. `taken_over`: how many segments have
    the rows of an earlier collection. `verified_at_ms`: when the CRCs were verified of the segment whose last check is the longest
    ago; None: those of one never were, there is none, or an earlier release collected it. `second_look`: how the log went on until all
    replicas had been captured; None: no broker was at work on it, it had changed otherwise, or an earlier release collected it.
    """

    directory: str
    capture: int
    captured_at_ms: int
    segments: int
    batches: int
    size_bytes: int
    files: tuple[str, ...] = ()
    is_copied: bool = False
    later: Mapping[str, int] = field(default_factory=dict)
    taken_over: int = 0
    verified_at_ms: int | None = None
    second_look: SecondLook | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedLogDir:
    """One log directory: `path` on the broker, `folder` in the collection.

    `files` are the small files of it that were copied, `file_digests` their digests, as of `file_digest`, by name; None: an earlier release
    collected it, which made none. `in_use` is whether a broker had it locked; None if that could not be told.
    `vanished` are replica directories that were deleted or renamed while they were read. `segments_bytes` and `segments_crc32c` are of the
    whole file `segments.parquet`, `small_files_bytes` and `small_files_crc32c` of `small-files.parquet`; None: an earlier release collected
    it, and the small files of each replica are in a folder of its name.
    """

    path: str
    folder: str
    directory_id: str | None
    in_use: bool | None
    segments_bytes: int
    segments_crc32c: int
    files: tuple[str, ...]
    replicas: tuple[CapturedReplica, ...]
    vanished: tuple[str, ...] = ()
    unread: tuple[Unread, ...] = ()
    small_files_bytes: int | None = None
    small_files_crc32c: int | None = None
    file_digests: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A whole collection. `unread` are log directories of which nothing could be read.

    `counts`, `options` and `versions` are for people, and so is `read_because`: how many segments were read for which reason, where an
    earlier collection was to be used. `reading_code` is a digest of the code that made the rows; None: an earlier release.
    """

    broker_id: int
    cluster_id: str | None
    host: str
    started_at_ms: int
    finished_at_ms: int
    log_dirs: tuple[CapturedLogDir, ...]
    unread: tuple[Unread, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, str | int | bool | None] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    read_because: Mapping[str, int] = field(default_factory=dict)
    reading_code: str | None = None

    @property
    def is_sealed(self) -> bool:
        """Whether a changed digit would be noticed, in it or a small file of a log directory: earlier releases wrote no digests."""
        return all(log_dir.file_digests is not None for log_dir in self.log_dirs)


def file_digest(content: bytes) -> str:
    """The digest of a small file, or of what stands before that of the manifest."""
    return blake2b(content, digest_size=16).hexdigest()


def content(manifest: Manifest) -> bytes:
    """The file's bytes."""
    document: dict[str, Any] = {"format": FORMAT, "version": VERSION, **asdict(manifest)}
    log_dirs = document.pop("log_dirs")
    _with_times(document)
    for log_dir in log_dirs:
        for replica in log_dir["replicas"]:
            _with_times(replica)
            if replica["second_look"] is not None:
                _with_times(replica["second_look"])
    document["log_dirs"] = log_dirs  # the long part last
    return sealed(json.dumps(document, indent=1, ensure_ascii=False))


def sealed(text: str) -> bytes:
    """The file's bytes: an object, as JSON in lines, with the digest of that as its last field."""
    said = text.encode().removesuffix(b"\n}")
    return said + _SEAL + file_digest(said).encode() + b'"\n}\n'


def _with_times(document: dict[str, Any]) -> None:
    """Put readable times in the place of milliseconds."""
    for key in [key for key in document if key.endswith("_at_ms")]:
        time_ms, name = document.pop(key), key.removesuffix("_ms")
        document[name] = None if time_ms is None else utc_text(time_ms)


def utc_text(time_ms: int) -> str:
    """A time, in milliseconds since 1970, as `2026-01-02T03:04:05.678Z`."""
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse(content: bytes, wanted: Callable[[str], bool] | None = None) -> Manifest:
    """Read a manifest.

    Args:
        content: the file's bytes.
        wanted: which replica directories to read, by their names; None for all of them.

    Raises:
        MetadataError: it is none, is of a later version, or is not as it was written.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise MetadataError(f"not JSON: {error}", line=getattr(error, "lineno", None)) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise MetadataError("not a manifest that collect wrote")
    if document.get("version") not in _READ:
        raise UnknownVersionError(document.get("version"))
    _refuse_changed(content, document)
    top, has_small_files = Fields(document, "manifest"), document["version"] > 1
    return Manifest(
        broker_id=top.integer("broker_id", INT32),
        cluster_id=top.optional_text("cluster_id"),
        host=top.text("host"),
        started_at_ms=top.time("started_at"),
        finished_at_ms=top.time("finished_at"),
        log_dirs=_once(
            tuple(_log_dir(fields, wanted, has_small_files=has_small_files) for fields in top.objects("log_dirs")), attrgetter("folder")
        ),
        unread=tuple(_unread(fields) for fields in top.objects("unread")),
        counts=top.mapping("counts"),
        options=top.mapping("options"),
        versions=top.mapping("versions"),
        read_because=top.mapping("read_because"),
        reading_code=top.optional_text("reading_code"),
    )


def identity(beginning: bytes) -> tuple[int, str | None] | None:
    """The ids of the broker and its cluster, from a manifest's first kilobytes; None: they are not there. Its digest is not checked."""
    try:
        first = json.loads(beginning.partition(b',\n "host"')[0] + b"}")
        return Fields(first, "manifest").integer("broker_id", INT32), Fields(first, "manifest").optional_text("cluster_id")
    except (ValueError, AttributeError, MetadataError):
        return None


def _refuse_changed(content: bytes, document: Mapping[str, Any]) -> None:
    """Refuse what has another digest than it ends with, or has lost it; an earlier release wrote neither that nor those of files."""
    said, _, seal = content.rpartition(_SEAL)
    is_old = "digest" not in document and not (said or b'"file_digests"' in content)
    if not is_old and seal != file_digest(said).encode() + b'"\n}\n':
        raise MetadataError("not what collect wrote: it was changed since, and its digest is not the one that it ends with")


def read(path: Path, wanted: Callable[[str], bool] | None = None) -> Manifest:
    """Read a manifest file; `wanted` as of `parse`.

    Raises:
        MetadataError: as `parse`.
        OSError: it cannot be read.
    """
    return parse(whole_content(path, DOCUMENT_LIMIT), wanted)


def _log_dir(fields: Fields, wanted: Callable[[str], bool] | None, *, has_small_files: bool) -> CapturedLogDir:
    in_use = fields.values.get("in_use")
    replicas = fields.objects("replicas", None if wanted is None else _wants(wanted))
    return CapturedLogDir(
        path=fields.text("path"),
        folder=fields.file_name("folder"),
        directory_id=fields.optional_text("directory_id"),
        in_use=in_use if isinstance(in_use, bool) else None,
        segments_bytes=fields.integer("segments_bytes"),
        segments_crc32c=fields.integer("segments_crc32c", 2**32),
        files=fields.file_names("files"),
        replicas=_once(tuple(map(_replica, replicas)), attrgetter("directory")),
        vanished=fields.file_names("vanished") if fields.values.get("vanished") else (),
        unread=tuple(_unread(unread) for unread in fields.objects("unread")),
        small_files_bytes=fields.integer("small_files_bytes") if has_small_files else None,
        small_files_crc32c=fields.integer("small_files_crc32c", 2**32) if has_small_files else None,
        file_digests=fields.mapping("file_digests") if "file_digests" in fields.values else None,
    )


def _wants(wanted: Callable[[str], bool]) -> Callable[[Mapping[str, Any]], bool]:
    """What is no text is read, and refused then."""
    return lambda values: not isinstance(directory := values.get("directory"), str) or wanted(directory)


def _once(named: tuple[T, ...], name: Callable[[T], str]) -> tuple[T, ...]:
    """Refuse two of one name: which of them would count?"""
    if len(set(map(name, named))) < len(named):
        (twice, _count), *_others = Counter(map(name, named)).most_common(1)
        raise MetadataError(f"the manifest lists {twice} twice")
    return named


def _replica(fields: Fields) -> CapturedReplica:
    directory = fields.file_name("directory")
    if replica_directory(directory) is None:
        raise MetadataError(f"the directory of a replica, {len(directory)} characters, is not named as one")
    return CapturedReplica(
        directory=directory,
        capture=fields.integer("capture", INT32),
        captured_at_ms=fields.time("captured_at"),
        segments=fields.integer("segments"),
        batches=fields.integer("batches"),
        size_bytes=fields.integer("size_bytes"),
        files=fields.file_names("files"),
        is_copied=fields.values.get("is_copied") is True,
        later=_later(Fields(fields.mapping("later"), directory)) if fields.values.get("later") else {},
        taken_over=fields.integer("taken_over") if "taken_over" in fields.values else 0,
        verified_at_ms=fields.time("verified_at") if fields.values.get("verified_at") is not None else None,
        second_look=_second_look(Fields(fields.mapping("second_look"), directory)) if fields.values.get("second_look") else None,
    )


def _later(fields: Fields) -> dict[str, int]:
    return {name: fields.integer(name) for name in OFFSETS if name in fields.values}


def _second_look(fields: Fields) -> SecondLook:
    epochs = fields.values.get("epochs")
    if not isinstance(epochs, list) or not all(isinstance(entry, list) and len(entry) == 2 for entry in epochs):
        raise MetadataError("epochs of a second look are not a list of entries")
    entries = [Fields({"epoch": entry[0], "start offset": entry[1]}, "an epoch") for entry in epochs]
    return SecondLook(
        looked_at_ms=fields.time("looked_at"),
        log_start_offset=fields.integer("log_start_offset"),
        log_end_offset=fields.integer("log_end_offset"),
        epochs=tuple((entry.integer("epoch", INT32), entry.integer("start offset")) for entry in entries),
    )


def _unread(fields: Fields) -> Unread:
    return Unread(path=fields.text("path"), kind=fields.text("kind"), reason=fields.text("reason"))
