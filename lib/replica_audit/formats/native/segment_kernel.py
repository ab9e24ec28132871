"""The loop over the batches of a segment, for numba to compile: headers, CRCs, runs, digests and producers in one pass.

It takes a batch only if nothing but its CRC is wrong, and stops in front of any other, and of a read that failed or gave too little: what
that is, and how it is told, the reader in Python decides, which goes on from the same position. So damages are known in one place.
Rows are changed where they stand, and functions take rows, not tables, whose references numba would count: a tenth of the time of a batch.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
from numba import njit
from numba.extending import register_jitable

from replica_audit.formats.native import crc_kernel as memory
from replica_audit.formats.native.scan_tables import DONE, MORE, SKIP_FROM
from replica_audit.formats.segment import record_batch as layout
from replica_audit.formats.segment import segment_fold
from replica_audit.model import BatchRun
from replica_audit.protocol.epochs import epoch_table as epochs
from replica_audit.protocol.transactions import producer_spans

_MOST_LEGACY_RECORDS = 2**31  # in an entry; one that claims more is left to Python, whose sums do not overflow
_ALL_ONES, _NOTHING = 0xFFFFFFFF, (0, (0,) * 11)
_V2: Any = namedtuple("V2", layout.V2_AT)(**layout.V2_AT)  # compiled code takes no dicts
_LEGACY: Any = namedtuple("Legacy", layout.LEGACY_AT)(**layout.LEGACY_AT)
_SMALLEST_0, _SMALLEST_1, _SMALLEST_2 = layout.SMALLEST_SIZE
_RULES: Any = (segment_fold.mixed, segment_fold.digest, epochs.continues, epochs.same_kind, epochs.joined)
_RULES += (producer_spans.continues, producer_spans.carried_on, producer_spans.of_batch, producer_spans.joined)
for rule in (*_RULES, producer_spans.expected_sequence, producer_spans.missing_between, producer_spans.gap_between):
    register_jitable(forceinline=True)(rule)  # the same that Python calls
_legacy_crc = memory.crc_by_tables(memory.CRC32_POLYNOMIAL)
_v2_crc = memory.crc32c_by_instruction if memory.has_instructions() else memory.crc_by_tables(memory.CRC32C_POLYNOMIAL)
_byte, _int16, _int32, _int64, _uint32 = memory.byte, memory.int16_at, memory.int32_at, memory.int64_at, memory.uint32_at


@njit(forceinline=True)
def _is_there(state: Any, position: int, size: int) -> bool:
    """Have so many bytes from a position on in memory, and if payloads are read, what is behind them."""
    if position + size > state.end:
        skips = state.verify_crc == 0 and state.last_size >= SKIP_FROM
        wanted = size if skips else min(state.capacity, state.size - position)
        state.begin, state.end = position, position + memory.pread(state.fd, state.buffer, wanted, position)
    return bool(position + size <= state.end)


@njit(forceinline=True)
def _decoded(state: Any, position: int, next_offset: int) -> Any:
    """Size of the batch at a position, at least 18 bytes before the end; 0 if it is not there or not to be taken. And what it says.

    That is as HEADER has it: offsets, magic, epoch, record count, max timestamp, stored CRC, attributes, producer with epoch and sequence.
    """
    left = state.size - position
    if not _is_there(state, position, min(_SMALLEST_2, left)):
        return _NOTHING
    at = state.buffer + position - state.begin
    size, magic = _int32(at + _V2.length) + layout.LOG_OVERHEAD, _byte(at + _V2.magic)
    if size <= left and magic == 2 and size >= _SMALLEST_2:
        base, delta, count = _int64(at), _int32(at + _V2.last_offset_delta), _int32(at + _V2.record_count)
        if delta >= 0 and count >= 0 and next_offset <= base <= layout.LAST_OFFSET - delta:
            producer = (_int64(at + _V2.producer_id), _int16(at + _V2.producer_epoch), _int32(at + _V2.base_sequence))
            epoch, time, stored = _int32(at + _V2.leader_epoch), _int64(at + _V2.max_timestamp), _uint32(at + _V2.crc)
            return size, (base, base + delta, 2, epoch, count, time, stored, _int16(at + _V2.attributes), *producer)
    elif magic < 2 and (_SMALLEST_1 if magic == 1 else _SMALLEST_0) <= size <= left:
        last, codec = _int64(at), _byte(at + _LEGACY.attributes) & layout.CODEC
        base = last if codec == 0 else next_offset
        if next_offset <= last <= layout.LAST_OFFSET and last - base < _MOST_LEGACY_RECORDS:
            time = _int64(at + _LEGACY.max_timestamp) if magic == 1 else -1
            return size, (base, last, magic, -1, last - base + 1, time, _uint32(at + _LEGACY.crc), codec, -1, -1, -1)
    return _NOTHING


@njit(forceinline=True)
def _is_intact(state: Any, position: int, size: int, magic: int, stored: int) -> int:
    """Whether a batch matches its CRC, 1 if nobody asks, -1 if it cannot be read."""
    at, stop, crc = position + (layout.V2_CRC_FROM if magic == 2 else layout.LEGACY_CRC_FROM), position + size, _ALL_ONES
    while state.verify_crc and at < stop:
        if not _is_there(state, at, 1):
            return -1
        part, address = min(stop, state.end) - at, state.buffer + at - state.begin
        crc = _v2_crc(crc, address, part) if magic == 2 else _legacy_crc(crc, address, part)
        at += part
    if state.verify_crc == 0 or crc ^ _ALL_ONES == stored:
        return 1
    if state.first_bad_crc < 0:
        state.first_bad_crc = position
    return 0


@njit(forceinline=True)
def _count(state: Any, span: Any, batch: Any, one: Any, gap: Any) -> None:
    """Count a batch, as `producer_spans.of_batch` takes it; `one` has room for its own span, `gap` for what is missing before it."""
    producer, epoch, sequence, base, last, count, time, transactional, marker = batch
    if span.batch_count > 0 and producer_spans.continues(span, producer, epoch, sequence, transactional, marker):
        memory.put(span, producer_spans.carried_on(span, sequence, base, last, count, time))  # nearly always; of a row few fields change
    elif count > 0 or not marker:  # the cleaner has not emptied it
        found = producer_spans.of_batch(*batch)
        memory.put(one, found)
        if span.batch_count + span.marker_count == 0:
            memory.put(span, found)
            state.producer_count += 1
            return
        missing = producer_spans.gap_between(span, one)
        if missing is not None:
            memory.put(gap, missing)
            state.gap_count += 1
        memory.put(span, producer_spans.joined(span, one))


@njit
def scan(words: Any, runs: Any, windows: Any, headers: Any, producers: Any, gaps: Any) -> int:
    """Take batches from `position` on: a state (STATE, in an array of one), and the tables of `ScanTables`."""
    state, room, mask, most_gaps = words[0], len(headers), len(producers) - 2, len(gaps) - 1
    position, next_offset, window, result = state.position, state.next_offset, windows[0], DONE
    run_count, window_count, header_count = state.run_count, 0, state.header_count
    while state.size - position > layout.HEADER_UP_TO_MAGIC:
        is_full = run_count == len(runs) or window_count == len(windows) or 0 < room <= header_count or 2 * state.producer_count > mask
        if is_full or position >= state.stop:
            result = MORE
            break
        size, header = _decoded(state, position, next_offset)
        base, last, magic, epoch, count, time, stored, attributes, producer, producer_epoch, sequence = header
        intact: Any = _is_intact(state, position, size, magic, stored) if size > 0 else -1
        if intact < 0:
            break
        if room:
            memory.put(headers[header_count], (position, size, intact, *header))
            header_count += 1
        run, batch = runs[max(run_count, 1) - 1], BatchRun(epoch, base, last, 1, count, size, time, time, magic, intact)
        is_any_gap = run_count >= state.runs_left
        if run_count > 0 and (epochs.continues(run, batch) or (is_any_gap and epochs.same_kind(run, batch))):
            memory.put(run, epochs.joined(run, batch))
        else:
            memory.put(runs[run_count], batch)
            run_count += 1
        first = base if magic == 2 else last
        if window_count == 0 or first >> segment_fold.WINDOW_BITS != window.number:
            window, window_count = windows[window_count], window_count + 1
            memory.put(window, (first >> segment_fold.WINDOW_BITS, 0, 0))
        window.digest += np.int64(segment_fold.digest(np.uint64(first), np.uint64(last - first), np.uint64(stored)))
        window.batch_count += 1
        transactional, marker = attributes & layout.TRANSACTIONAL, attributes & layout.CONTROL
        if producer >= 0 and intact:
            place = int(np.int64(segment_fold.mixed(np.uint64(producer)))) & mask
            while producers[place].producer_id != producer and producers[place].batch_count + producers[place].marker_count > 0:
                place = (place + 1) & mask
            producers[state.producer_count].place = place  # if it is a new one
            named = (producer, producer_epoch, sequence, base, last, count, time, transactional, marker)
            _count(state, producers[place], named, producers[mask + 1], gaps[min(state.gap_count, most_gaps)])
        elif producer >= 0:
            state.untold_batches += 1
        position, next_offset, state.last_size = position + size, last + 1, size
    state.run_count, state.window_count, state.header_count = run_count, window_count, header_count
    state.position, state.next_offset = position, next_offset
    return result
