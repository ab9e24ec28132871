"""Text of kafka-dump-log among a broker's files: found by content under any name, and given to the replica that it tells of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from replica_audit.errors import InputError
from replica_audit.formats import dump_log, log_dir
from replica_audit.formats.log_layouts import looks_like_server_log
from replica_audit.formats.packed_text import is_packed, open_text, why_cut
from replica_audit.formats.tree_walk import cannot_read
from replica_audit.model import Problem, ReplicaFiles, SegmentFile

_SNIFFED = 4096
_SNIFFED_OF_A_LOG = 1 << 16  # a container prints its configuration before the first line of the log
_DUMPING = b"Dumping "


class DumpTexts:
    """The texts of one broker. `unknown` are files that are none, and belong in no log directory; `server_logs` the broker's own logs."""

    def __init__(self, problems: list[Problem]) -> None:
        """Report to `problems`."""
        self.problems = problems
        self.dumps: list[tuple[Path, dump_log.DumpSection]] = []
        self.server_logs: list[Path] = []
        self.unknown: list[Path] = []
        self._packed: set[Path] = set()

    def takes_segment(self, segment: Path) -> bool:
        """Whether a file with a segment's name is text of kafka-dump-log; it is then read as that."""
        try:
            with open_text(segment) as stream:
                is_text = stream.read(len(_DUMPING)) == _DUMPING
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
                    head += stream.read(_SNIFFED_OF_A_LOG - len(head))
                    (self.server_logs if looks_like_server_log(head) else self.unknown).append(path)
                    return
                stream.seek(0)
                if is_packed(stream):
                    self._packed.add(path)
                self.dumps.extend((path, section) for section in dump_log.sections(stream))
                if reason := why_cut(stream):
                    self.problems.append(
                        Problem(path=str(path), kind="dump", code="dump-truncated", detail=reason, remedy="pack or copy the text again")
                    )
        except OSError as error:
            self.problems.append(cannot_read(path, "file", error))
        except InputError as error:
            self.problems.append(
                Problem(
                    path=str(path), kind="dump", code="malformed", detail=error.reason, remedy="dump the segment again", line=error.line
                )
            )

    def attach(
        self,
        replicas: dict[tuple[str, str], ReplicaFiles],
        parents: Sequence[str],
        without_files: Callable[[str, str, log_dir.ReplicaDirectory], ReplicaFiles],
    ) -> None:
        """Give every section of a dump to the replica directory it names, or else to the folder it lies in."""
        unpacked_bytes = {path: section.byte_end for path, section in self.dumps if path in self._packed}  # the last section's end
        for path, section in self.dumps:
            directory = section.directory if log_dir.replica_directory(section.directory) else path.parent.name
            name = log_dir.replica_directory(directory)
            if name is None:
                detail = "neither its 'Dumping' line nor its folder names a TOPIC-PARTITION"
                remedy = "keep the 'Dumping PATH' line that kafka-dump-log prints, or put the text into a folder named TOPIC-PARTITION"
                self.problems.append(
                    Problem(path=str(path), kind="dump", code="unknown-replica", detail=detail, remedy=remedy, line=section.first_line)
                )
                continue
            key = _home_of(path, section, directory, replicas, parents)
            replica = replicas.get(key) or without_files(key[0], directory, name)
            replicas[key] = _with_section(path, section, unpacked_bytes.get(path, 0), replica)


def _with_section(path: Path, section: dump_log.DumpSection, unpacked_bytes: int, replica: ReplicaFiles) -> ReplicaFiles:
    """The replica with one more segment, unless it has that segment already."""
    file = SegmentFile(
        path=str(path),
        source="dump",
        base_offset=section.segment_base_offset or 0,
        size_bytes=section.byte_end - section.byte_start,
        byte_start=section.byte_start,
        byte_end=section.byte_end,
        first_line=section.first_line,
        unpacked_bytes=unpacked_bytes,
    )
    twin = next((s for s in replica.segments if s.base_offset == file.base_offset and not s.swap), None)
    if twin is None:
        return replace(replica, segments=(*replica.segments, file))
    problem = Problem(
        path=str(path),
        kind="dump",
        code="segment-given-twice",
        detail=f"segment {file.base_offset} of {replica.directory} is also read from {twin.path}",
        remedy="leave one of the two out; the other one was used",
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
    return section.log_dir or str(path.parent.parent if path.parent.name == directory else path.parent), directory
