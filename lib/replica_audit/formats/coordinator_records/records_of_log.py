"""The records of one partition of a coordinator's topic, over all its segments, and what of them cannot be used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from replica_audit.files.kept_text import KeptText
from replica_audit.files.locations import located
from replica_audit.files.tree_walk import cannot_read
from replica_audit.formats.coordinator_records.record_events import RecordDecoder, record_events
from replica_audit.formats.coordinator_records.unusable import Unusable, UnusableRecords
from replica_audit.model import Problem, SegmentFile


class _Placed(Protocol):
    @property
    def record_offset(self) -> int: ...


_T = TypeVar("_T", bound=_Placed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedAs:
    """How records that cannot be used are reported: kind and remedies as of `UnusableRecords`."""

    kind: str
    remedy: str
    of_text: Mapping[str, str]


def records_of_log(
    files: Sequence[SegmentFile], log_end_offset: int | None, decoder: RecordDecoder[_T], reported: ReportedAs, problems: list[Problem]
) -> Iterator[tuple[_T, str]]:
    """What the records below a log's end are, each with the path of its segment.

    Args:
        files: the segments that make up the log of one partition, in any order.
        log_end_offset: where the log ends (exclusive); None: all count.
        decoder: of the records.
        reported: of what cannot be used, also above the log's end.
        problems: takes them, in the order of the files.
    """
    with KeptText() as kept:
        for file in sorted(files, key=lambda file: file.base_offset):
            found = UnusableRecords(file.path, reported.kind, reported.remedy, reported.of_text)
            try:
                for event in record_events(file, kept, decoder):
                    if isinstance(event, Unusable):
                        found.add(event)
                    elif log_end_offset is None or event.record_offset < log_end_offset:
                        yield event, file.path
            except OSError as error:
                problems.append(cannot_read(located(file.path), reported.kind, error))
            problems += found.problems()
