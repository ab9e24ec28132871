"""What kafka-dump-log prints of producer snapshots and of indexes of aborted transactions.

Source: DumpLogSegments.dumpProducerIdSnapshot and dumpTxnIndex (0.11 to 4.3). Up to 2.3 the last batch comes before the epoch of the
coordinator, and of a producer without one as -1; later it is left out, up to 3.2 with the time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from replica_audit.errors import DumpLogError
from replica_audit.files.locations import located
from replica_audit.files.packed_text import open_text
from replica_audit.files.text_lines import TextLines
from replica_audit.formats.dump import pasted_text
from replica_audit.formats.log_dir.whole_file import LIST_LIMIT, TooLargeError
from replica_audit.model import AbortedTransaction, ProducerState, ProducerText

_PAIR = re.compile(r"(\w{1,40}): (\S{1,40})")
_OPTIONAL = re.compile(r"(?:Some\(|OptionalLong\[)(\d{1,19})[)\]]")
_NONE = ("None", "OptionalLong.empty")
_ABORTED = re.compile(
    r"version: (\d{1,5}) producerId: (-?\d{1,19}) firstOffset: (\d{1,19}) lastOffset: (\d{1,19}) lastStableOffset: (\d{1,19})"
)


def producer_states_in_text(text: ProducerText) -> tuple[tuple[ProducerState, int], ...]:
    """The producers that a text shows of a snapshot, each with its line.

    Raises:
        DumpLogError: a line cannot be read, or some were left out.
        OSError: the text cannot be read, or is larger than such a file can be.
    """
    return tuple((_state(line, number), number) for line, number in _lines(text))


def aborted_transactions_in_text(text: ProducerText) -> tuple[AbortedTransaction, ...]:
    """The entries that a text shows of an index; errors as of `producer_states_in_text`."""
    return tuple(_aborted(line, number) for line, number in _lines(text))


def _lines(text: ProducerText) -> Iterator[tuple[str, int]]:
    """The lines behind the `Dumping` line, with their numbers, except what people paste along."""
    if text.byte_end - text.byte_start > LIST_LIMIT:
        raise TooLargeError(LIST_LIMIT)
    with open_text(located(text.path)) as stream:
        stream.seek(text.byte_start)
        lines = TextLines(stream, text.byte_start, text.byte_end, text.first_line)
        lines.take()
        while line := lines.take():
            number = lines.number - 1
            if pasted_text.leaves_out(line):
                raise DumpLogError("lines were left out here", line=number)
            if not pasted_text.may_precede(line):
                yield line.decode("utf-8", "replace").strip(), number


def _state(line: str, number: int) -> ProducerState:
    told = dict(_PAIR.findall(line))
    open_first = told.get("currentTxnFirstOffset", "")
    is_open = _OPTIONAL.fullmatch(open_first)
    try:
        if not line.startswith("producerId: ") or (is_open is None and open_first not in _NONE):
            raise ValueError
        has_batch = int(told.get("lastOffset", -1)) >= 0
        return ProducerState(
            producer_id=int(told["producerId"]),
            producer_epoch=int(told["producerEpoch"]),
            last_sequence=int(told["lastSequence"]) if has_batch else -1,
            last_offset=int(told["lastOffset"]) if has_batch else -1,
            offset_delta=int(told["offsetDelta"]) if has_batch else 0,
            timestamp_ms=int(told.get("lastTimestamp") or told.get("timestamp", -1)),
            coordinator_epoch=int(told["coordinatorEpoch"]),
            open_first_offset=-1 if is_open is None else int(is_open[1]),
        )
    except (KeyError, ValueError):
        raise DumpLogError("a line that is not one of a producer snapshot", line=number) from None


def _aborted(line: str, number: int) -> AbortedTransaction:
    match = _ABORTED.fullmatch(line)
    if match is None or int(match[1]) > 0:
        raise DumpLogError("a line that is not one of an index of aborted transactions", line=number)
    return AbortedTransaction(*map(int, match.groups()[1:]))
