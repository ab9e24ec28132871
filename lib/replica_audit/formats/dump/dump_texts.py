"""Text of kafka-dump-log among a broker's files: found by content under any name, and given to the replica that it tells of."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from replica_audit.errors import InputError
from replica_audit.files.text_files import is_packed, open_text, why_cut
from replica_audit.files.tree_walk import cannot_read
from replica_audit.formats.dump import dump_log, pasted_text
from replica_audit.formats.dump.pasted_text import Command
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.server_log.log_lines import looks_like_server_log
from replica_audit.model import Problem, ProducerText, ReplicaFiles, SegmentFile
from replica_audit.words import count

_MOST_PARTITIONS = 1_000_000  # of a topic: what is above is a date or a number of something else
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_DATE = re.compile(r"(19|20)\d\d[-._]?(\d\d)?")
_ENDINGS = re.compile(r"(\.(txt|text|log|dump|dumps|out|output|gz|md|utf8|utf-8|utf16|utf-16))+$", re.IGNORECASE)
_SEGMENT = re.compile(r"[-_.]?\d{20}$")
# fmt: off
_MACHINES = {
    "kafka", "kraft", "broker", "controller", "node", "host", "server", "machine", "instance", "pod", "container", "vm", "peer",
    "member", "role", "replica",
}
# fmt: on
# fmt: off
_PLACES = {
    "data", "disk", "drive", "volume", "vol", "pv", "pvc", "mnt", "mount", "ssd", "hdd", "nvme", "jbod", "raid", "storage", "store",
    "dir", "directory", "folder", "path", "log", "logdir", "tmp", "srv", "zone", "az", "rack", "region", "site", "cluster", "backup",
    "bak", "copy", "copie", "snapshot", "snap", "dump", "text", "txt", "file", "output", "out", "result", "segment", "seg", "index",
    "part", "partition", "p", "leader", "follower", "before", "after", "run",
}
# fmt: on
_FIRST = {"kafka", "broker", "ip", "pvc"}  # kafka-logs-1, broker-a-1, ip-10-0-0-12, pvc-...


def of_folder(name: str) -> log_dir.ReplicaDirectory | None:
    """What a folder's name says, where there is nothing else to go by; None if it is no TOPIC-PARTITION's, or as well another thing's."""
    told = log_dir.replica_directory(name)
    if told is None or told.partition >= _MOST_PARTITIONS or not _TOPIC.fullmatch(told.topic):
        return None
    return None if _DATE.fullmatch(told.topic) or _is_of_something_else(told.topic) else told


def _is_of_something_else(topic: str) -> bool:
    words = [re.sub(r"\d+$", "", word).removesuffix("s") for word in re.split("[-_.]", topic.lower())]
    return words[-1] in _MACHINES or words[0] in _FIRST or (len(words) == 1 and words[0] in _PLACES)


def of_file(name: str) -> str | None:
    """The replica directory that a file's name names, as `orders-0.txt` and `orders-0-00000000000000000000.log.gz`; None if none."""
    stem = _SEGMENT.sub("", _ENDINGS.sub("", name))
    return stem if of_folder(stem) else None


def segment_of_file(name: str) -> int | None:
    """The base offset that a file's name has at its end, before its endings; None if none."""
    found = re.search(r"(?:^|[-_.])(\d{20})$", _ENDINGS.sub("", name))
    return int(found[1]) if found and int(found[1]) < 1 << 63 else None


_SNIFFED = 16_384  # warnings of the JVM before the text have some KiB
_SNIFFED_OF_A_LOG = 1 << 16  # a container prints its configuration before the first line of the log
_DUMPING = b"Dumping "
_UNKNOWN = "neither its 'Dumping' line nor its folder or file name shows for sure which TOPIC-PARTITION it belongs to"
_NAME_IT = "name the file TOPIC-PARTITION.txt (orders-0.txt), or dump again by the full path: --files /DIR/TOPIC-PARTITION/...log"


class DumpTexts:
    """The texts of one broker. `unknown` are files that are none, and belong in no log directory; `server_logs` the broker's own logs."""

    def __init__(self, problems: list[Problem], of_other_kind: Callable[[Path, bytes], Problem | None]) -> None:
        """Report to `problems`; `of_other_kind` tells what is wrong with a file, from its first bytes, if it knows its kind."""
        self.problems, self._of_other_kind = problems, of_other_kind
        self.top = Path()  # the broker's folder
        self.dumps: list[tuple[Path, dump_log.DumpSection]] = []
        self.of_producers: list[tuple[Path, dump_log.DumpSection]] = []  # of snapshots and indexes of aborted transactions
        self.server_logs: list[Path] = []
        self.unknown: list[Path] = []
        self.of_other_files: list[Path] = []  # texts that show indexes and the like, and no log
        self._packed: set[Path] = set()
        self._cut: dict[Path, Problem] = {}  # of packed texts that cannot be unpacked to their end
        self._parts: dict[tuple[Path, Command], Problem] = {}  # of texts that are a part, by the command that says so

    def takes_segment(self, segment: Path) -> bool:
        """Whether a file with a segment's name is text of kafka-dump-log; it is then read as that."""
        try:
            with open_text(segment) as stream:
                head = stream.read(len(_DUMPING))
                # a segment begins with an offset of eight bytes, the first of which is zero
                is_text = head == _DUMPING or (b"\0" not in head and dump_log.looks_like_dump(head + stream.read(_SNIFFED)))
        except OSError:
            return False  # told when it is scanned
        if is_text:
            self.take(segment)
        return is_text

    def take(self, path: Path) -> None:
        """Take a file of any name, if it is text of kafka-dump-log."""
        try:
            if log_dir.is_server_log(path.name):
                self.server_logs.append(path)
                return
            with open_text(path) as stream:
                head = stream.read(_SNIFFED)
                if not dump_log.looks_like_dump(head):
                    self._take_other(path, head + stream.read(_SNIFFED_OF_A_LOG - len(head)))
                    return
                stream.seek(0)
                if is_packed(stream):
                    self._packed.add(path)
                before = len(self.dumps) + len(self.of_producers)
                first = len(self.dumps)
                for section in dump_log.all_sections(stream):
                    (self.dumps if section.kind == dump_log.LOG else self.of_producers).append((path, section))
                if len(self.dumps) + len(self.of_producers) == before:
                    self.of_other_files.append(path)
                self._tell_parts(path, [section for _path, section in self.dumps[first:]])
                if reason := why_cut(stream):
                    remedy = "pack or copy the text again"
                    self._cut[path] = Problem(path=str(path), kind="dump", code="dump-truncated", detail=reason, remedy=remedy)
        except OSError as error:
            self.problems.append(cannot_read(path, "file", error))
        except InputError as error:
            self.problems.append(
                Problem(
                    path=str(path), kind="dump", code="malformed", detail=error.reason, remedy="dump the segment again", line=error.line
                )
            )

    def _tell_parts(self, path: Path, sections: Sequence[dump_log.DumpSection]) -> None:
        """Keep for the sections of a text that the command above them says that they are only a part."""
        for command, why in dump_log.parts(sections):
            self._parts[path, command] = Problem(
                path=str(path),
                kind="dump",
                code="dump-truncated",
                detail=why,
                remedy="dump the segment again, to its end and through nothing that leaves lines out",
                line=command.line,
            )

    def tell_unused(self) -> None:
        """Report the files that are of no use, once for each kind: there may be many of one."""
        self._tell_first(
            self.unknown,
            "file",
            "unrecognised-files",
            "neither Kafka's nor kafka-dump-log's",
            "nothing, if they do not belong to the brokers; else check how they were copied",
        )
        self._tell_first(
            self.of_other_files,
            "dump",
            "dump-of-no-log",
            "text of kafka-dump-log that shows an index, a snapshot or the like, not a .log file, of a replica whose log is not in the "
            "input",
            "dump the .log files of the replica",
        )

    def _tell_first(self, paths: Sequence[Path], kind: str, code: str, what: str, remedy: str) -> None:
        if paths:
            detail = f"in {self.top.name} {count(len(paths), 'file is', 'files are')} {what}; this is the first"
            self.problems.append(Problem(path=str(paths[0]), kind=kind, code=code, detail=detail, remedy=remedy))

    def _take_other(self, path: Path, head: bytes) -> None:
        """Take a file that does not begin as text of kafka-dump-log does."""
        if looks_like_server_log(head):
            self.server_logs.append(path)
        elif (problem := self._of_other_kind(path, head)) is not None:
            self.problems.append(problem)
        elif b"\0" not in head and (found := pasted_text.unfit(head)) is not None:
            detail = f"a text with output of kafka-dump-log that cannot be read: this line begins {found.begins!r}"
            remedy = "keep in the text only what kafka-dump-log printed, every line from its first character"
            self.problems.append(Problem(path=str(path), kind="dump", code="unusable-dump", detail=detail, remedy=remedy, line=found.line))
        else:
            self.unknown.append(path)

    def attach(
        self,
        replicas: dict[tuple[str, str], ReplicaFiles],
        parents: Sequence[str],
        is_replica: Callable[[Path], bool],
        without_files: Callable[[str, str, log_dir.ReplicaDirectory], ReplicaFiles],
    ) -> None:
        """Give every section of a dump to the replica directory it names, or else to that which its folder or file is named for.

        Args:
            replicas: of the broker, by log directory and name; those that only texts tell of are added.
            parents: the folders that hold replicas, and the log directories.
            is_replica: whether a folder of such a name, at such a place, is a replica directory, as the files around it show.
            without_files: makes a replica of which only texts are there.
        """
        unpacked_bytes = {path: section.byte_end for path, section in self.dumps if path in self._packed}  # the last section's end
        for path, section in self.dumps:
            directory = self._directory(path, section, parents, is_replica)
            name = log_dir.replica_directory(directory)
            if name is None:
                self.problems.append(
                    Problem(path=str(path), kind="dump", code="unknown-replica", detail=_UNKNOWN, remedy=_NAME_IT, line=section.first_line)
                )
                continue
            key = _home_of(path, section, directory, replicas, parents)
            replica = replicas.get(key) or without_files(key[0], directory, name)
            replica = _with_section(path, section, unpacked_bytes.get(path, 0), replica)
            if path in self._cut and section.byte_end == unpacked_bytes[path]:  # what follows is missing, of this one at least
                replica = replace(replica, problems=(*replica.problems, self._cut.pop(path)))
            part = None if section.command is None else self._parts.get((path, section.command))
            if part is not None and part not in replica.problems:
                replica = replace(replica, problems=(*replica.problems, part))
            replicas[key] = replica
        self.problems += self._cut.values()
        self._attach_of_producers(replicas, parents, is_replica)

    def _attach_of_producers(
        self, replicas: dict[tuple[str, str], ReplicaFiles], parents: Sequence[str], is_replica: Callable[[Path], bool]
    ) -> None:
        """Give texts of snapshots and indexes to replicas whose log is there: without one they cannot be compared with anything."""
        for path, section in self.of_producers:
            directory = self._directory(path, section, parents, is_replica)
            key = _home_of(path, section, directory, replicas, parents)
            replica = replicas.get(key)
            if replica is None or not replica.segments or section.segment_base_offset is None:
                self.of_other_files.append(path)
                continue
            text = ProducerText(
                name=f"{section.segment_base_offset:020d}{section.kind}",
                path=str(path),
                byte_start=section.byte_start,
                byte_end=section.byte_end,
                first_line=section.first_line,
            )
            replicas[key] = replace(replica, producer_texts=(*replica.producer_texts, text))

    def _directory(self, path: Path, section: dump_log.DumpSection, parents: Sequence[str], is_replica: Callable[[Path], bool]) -> str:
        """The name of the replica directory that a section is of; empty if nothing says it for sure."""
        folder = path.parent
        if log_dir.replica_directory(section.directory) and (self._is_trusted(section) or is_replica(folder / section.directory)):
            return section.directory
        if folder != self.top and is_replica(folder):
            return folder.name
        by_folder = "" if folder == self.top or str(folder) in parents or not of_folder(folder.name) else folder.name
        by_file = of_file(path.name) or ""
        return "" if by_folder and by_file and by_folder != by_file else by_folder or by_file

    def _is_trusted(self, section: dump_log.DumpSection) -> bool:
        """Whether what the path of a `Dumping` line names above the file is a replica directory, not a broker's folder or a disk."""
        if section.directory == self.top.name or section.log_dir in ("", "."):
            return of_folder(section.directory) is not None
        return log_dir.is_broker_folder(section.directory) is None


def _with_section(path: Path, section: dump_log.DumpSection, unpacked_bytes: int, replica: ReplicaFiles) -> ReplicaFiles:
    """The replica with one more segment, unless it has that segment already."""
    base_offset = segment_of_file(path.name) if section.segment_base_offset is None else section.segment_base_offset
    file = SegmentFile(
        path=str(path),
        source="dump",
        base_offset=base_offset or 0,
        size_bytes=section.byte_end - section.byte_start,
        byte_start=section.byte_start,
        byte_end=section.byte_end,
        first_line=section.first_line,
        unpacked_bytes=unpacked_bytes,
        stops_early=section.stops_early,
    )
    twin = next((s for s in replica.segments if s.base_offset == file.base_offset and not s.swap), None)
    if twin is None:
        return replace(replica, segments=(*replica.segments, file))
    problem = Problem(
        path=str(path),
        kind="dump",
        code="segment-given-twice",
        detail=f"segment {file.base_offset} of {replica.directory} is also read from {twin.path}",
        remedy="leave out one of the two; the audit used the other one",
        line=section.first_line,
    )
    return replace(replica, problems=(*replica.problems, problem))


def _home_of(
    path: Path, section: dump_log.DumpSection, directory: str, replicas: Mapping[tuple[str, str], ReplicaFiles], parents: Sequence[str]
) -> tuple[str, str]:
    """The replica directory that a section belongs to: an existing one if its place or its log directory's name tells which."""
    if path.parent.name == directory and str(path.parent.parent) in parents:
        return str(path.parent.parent), directory
    known = [parent for parent in parents if (parent, directory) in replicas] or list(parents)
    same_name = [parent for parent in known if Path(parent).name == Path(section.log_dir).name]
    for candidates in (same_name, known):
        if len(candidates) == 1:
            return candidates[0], directory
    above = path.parent.parent if path.parent.name == directory else path.parent
    return (section.log_dir if section.directory == directory else "") or str(above), directory
