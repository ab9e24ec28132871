"""A whole collection: which broker it is, what is captured in which order, and the manifest.

Metadata comes first, then the groups' offsets, then the other replicas. Metadata that is older than the logs is excused (a leader may have
been elected since); metadata that is newer would make leaders of replicas that did not lead yet when they were copied. An offset that a
group committed is below the end of a log that is copied later.
"""

from __future__ import annotations

import os
import platform
import re
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from replica_audit.collect.file_identity import ReadCause
from replica_audit.collect.log_dir_capture import LogDirCapture
from replica_audit.collect.origin import cannot_list, origin_of
from replica_audit.collect.output import Output
from replica_audit.collect.pace import Pace
from replica_audit.collect.previous import Previous, previous_of, reading_code
from replica_audit.collect.replica_capture import now_ms
from replica_audit.collect.request import CollectRequest, CollectResult
from replica_audit.collect.scrub import Scrub
from replica_audit.errors import UsageError
from replica_audit.formats.collection.manifest import Manifest
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.log_dir.names import topic_filter
from replica_audit.program import VERSION
from replica_audit.progress import Progress, Stage, TellsEvent

_REVISITS = 3
_COUNTED_EVERY_S = 0.5
# internal topics that are copied whole, in this order; other topics come later, and none of their records
_PHASES = {log_dir.METADATA_TOPIC: 0, log_dir.GROUP_OFFSETS_TOPIC: 1, log_dir.TRANSACTIONS_TOPIC: 2}


def collect(request: CollectRequest, tell: TellsEvent) -> CollectResult:
    """Collect what the log directories of a broker hold; `tell` takes its progress.

    Raises:
        UsageError: the request makes no sense, or nothing can be read.
        OutputError: the collection cannot be written.
    """
    return _Session(request, tell).run()


class _Session:
    def __init__(self, request: CollectRequest, tell: TellsEvent) -> None:
        self.request, self.progress = request, Progress(tell)
        self.began, self.started_at_ms = time.monotonic(), now_ms()
        self._counted_s = 0.0
        self.is_wanted = _topic_filter(request.topics)
        self.origin = origin_of(request)
        self.unread = list(self.origin.unread)
        self.pace = Pace(request.rate, progress=self._count)
        self.now_at, self.number, self.of = "", 0, 0
        self.captures: list[LogDirCapture] = []
        self.offsets_left = request.group_offsets_limit
        self.previous: Previous | None = None
        self.scrub: Scrub | None = None
        if request.verify_within_s is not None:
            self.scrub = Scrub(request.verify_within_s, request.time_limit_s, now_ms=self.started_at_ms, began=self.began)

    def run(self) -> CollectResult:
        origin = self.origin
        output = Output(self.request.output.absolute(), origin.broker_id, replace=self.request.replace, log_dirs=origin.log_dirs)
        try:
            if self.request.since is not None:  # not earlier: what a killed run left of it has been put in order by now
                self.previous = previous_of(self.request.since.absolute(), origin, self.progress.say)
            manifest = self._capture(output)
            kept = output.finish(manifest)
        except BaseException:
            for capture in self.captures:
                capture.abandon()
            output.abandon()
            raise
        finally:
            if self.previous is not None:
                self.previous.close()
        return CollectResult(folder=output.target, manifest=manifest, kept=kept)

    def _capture(self, output: Output) -> Manifest:
        paths = self.origin.log_dirs
        names = _folder_names(paths)
        for path in paths:
            try:
                self.captures.append(LogDirCapture(path, names[path], output, self.pace, self.request, self.previous, self.scrub))
            except OSError as error:
                self.unread.append(cannot_list(path, error))
        if self.scrub is not None and self.previous is not None:
            self.scrub.plan(self.previous.opened, self.previous.manifest.started_at_ms)
        in_use = [capture for capture in self.captures if capture.is_in_use]
        several = "y" if len(paths) == 1 else "ies"
        said = f"broker {self.origin.broker_id}: {len(paths)} log director{several}{', in use' if in_use else ''}"
        known = [self.origin.cluster_id] if self.origin.cluster_id else []
        self.progress.begin(Stage.COLLECTING, said, clusters=known, broker_id=self.origin.broker_id, log_dirs=len(paths))
        for visit in range(1 + _REVISITS):
            if not self._visit() and visit:
                break
        if not any(capture.is_of_a_broker for capture in self.captures):
            told = ", ".join(map(str, paths))
            raise UsageError(f"no log directory of a broker: {told}; such a directory holds {log_dir.META_PROPERTIES} and TOPIC-N folders")
        self.now_at = "looking at the logs' ends again"
        for capture in self.captures:
            capture.look_again()
        log_dirs = tuple(capture.finish() for capture in self.captures)
        manifest = Manifest(
            broker_id=self.origin.broker_id,
            cluster_id=self.origin.cluster_id,
            host=socket.gethostname(),
            started_at_ms=self.started_at_ms,
            finished_at_ms=now_ms(),
            log_dirs=log_dirs,
            unread=tuple(self.unread),
            options=self._options(),
            versions=_versions(),
            read_because=self._causes(),
            reading_code=reading_code(),
        )
        return replace(manifest, counts=self._counts(manifest))

    def _visit(self) -> bool:
        """Capture every replica directory that is there and has not been; drop those that are not there any more. Whether any were."""
        todo = sorted(self._missing(), key=self._place)
        for number, (capture, directory, parsed) in enumerate(todo, 1):
            self.now_at, self.number, self.of = f"{capture.name}/{directory}", number - 1, len(todo)
            capture.capture(directory, parsed, is_copied=self._is_copied(capture, directory, parsed))
        return bool(todo)

    def _place(self, one: tuple[LogDirCapture, str, log_dir.ReplicaDirectory]) -> tuple[int, int, int, str]:
        capture, directory, parsed = one
        return _PHASES.get(parsed.topic, len(_PHASES)), capture.rank(directory), self.captures.index(capture), directory

    def _missing(self) -> Iterator[tuple[LogDirCapture, str, log_dir.ReplicaDirectory]]:
        for capture in self.captures:
            try:
                there = {name: (parsed, inode) for name, parsed, inode in capture.directories() if self.is_wanted(parsed.topic)}
            except OSError as error:
                if (unread := cannot_list(capture.path, error)) not in self.unread:
                    self.unread.append(unread)
                continue
            for directory, (inode, _replica) in list(capture.replicas.items()):
                if directory not in there or inode not in (-1, there[directory][1]):
                    capture.forget(directory)
                    capture.vanished.add(directory)
            for directory, (parsed, _inode) in there.items():
                if directory not in capture.replicas and directory not in capture.unread:
                    yield capture, directory, parsed

    def _is_copied(self, capture: LogDirCapture, directory: str, parsed: log_dir.ReplicaDirectory) -> bool:
        if parsed.state != "current" or parsed.topic not in _PHASES:
            return False
        if parsed.topic == log_dir.METADATA_TOPIC:
            return True
        size = _size_of(capture.path / directory)
        if size > self.offsets_left:
            if self.request.group_offsets_limit:
                self.progress.say(
                    f"{directory} is not copied whole ({size / 1e6:.0f} MB): the audit will not know what its coordinator wrote"
                )
            return False
        self.offsets_left -= size
        return True

    def _count(self) -> None:
        seconds, read = self.progress.seconds, self.pace.bytes_read
        if seconds - self._counted_s >= _COUNTED_EVERY_S:
            self._counted_s = seconds
            said = f"{self.now_at} ({self.number + 1} of {self.of}): {read / 1e6:.0f} MB read, {read / seconds / 1e6:.1f} MB/s"
            self.progress.count(self.number, self.of, "replicas", said, bytes_read=read)

    def _options(self) -> dict[str, str | int | bool | None]:
        request = self.request
        return {
            "verify_crc": request.verify_crc,
            "batch_index": request.has_index,
            "rate_limit": request.rate,
            "topics": request.topics or None,
            "group_offsets_limit": request.group_offsets_limit,
            "since": str(request.since) if request.since is not None else None,
            "verify_within_s": request.verify_within_s,
            "time_limit_s": request.time_limit_s,
        }

    def _causes(self) -> dict[str, int]:
        """Why segments were read, the most frequent first."""
        causes = sum((found for capture in self.captures for found in capture.causes.values()), Counter[ReadCause]())
        return {str(cause): count for cause, count in causes.most_common()}

    def _counts(self, manifest: Manifest) -> dict[str, int]:
        replicas = [replica for one in manifest.log_dirs for replica in one.replicas]
        return {
            "log_dirs": len(manifest.log_dirs),
            "replicas": len(replicas),
            "segments": sum(replica.segments for replica in replicas),
            "batches": sum(replica.batches for replica in replicas),
            "segments_taken_over": sum(replica.taken_over for replica in replicas),
            "bytes_of_segments": sum(replica.size_bytes for replica in replicas),
            "bytes_read": self.pace.bytes_read,
            "verified_again": self.scrub.count if self.scrub else 0,
            "bytes_verified_again": self.scrub.size_bytes if self.scrub else 0,
            "verification_left": self.scrub.left if self.scrub else 0,
            "bytes_of_verification_left": self.scrub.left_bytes if self.scrub else 0,
            "vanished": sum(len(one.vanished) for one in manifest.log_dirs),
            "unread": len(manifest.unread) + sum(len(one.unread) for one in manifest.log_dirs),
        }


def _topic_filter(pattern: str) -> Callable[[str], bool]:
    try:
        matches = topic_filter(pattern)
    except re.error as error:
        raise UsageError(f"--topics {pattern!r}: not a regular expression: {error}") from None
    return lambda topic: topic in _PHASES or matches(topic)


def _folder_names(paths: Sequence[Path]) -> dict[Path, str]:
    """A name of its own for each log directory's folder in the collection: its own, with a number if another has it, too."""
    names: dict[Path, str] = {}
    for path in paths:
        name = plain = path.name.lstrip(".") or "log-dir"
        number = 1
        while name in names.values():
            number += 1
            name = f"{plain}.{number}"
        names[path] = name
    return names


def _size_of(path: Path) -> int:
    try:
        with os.scandir(path) as entries:
            return sum(entry.stat().st_size for entry in entries if log_dir.segment_name(entry.name))
    except OSError:
        return 0


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), "replica-audit": VERSION}
    for package in ("pyarrow", "numpy"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed as a package"
    return versions
