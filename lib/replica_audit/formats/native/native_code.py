"""The compiled scan of segments, for processes that read enough to gain from it.

To import numba and have it load what it compiled before takes some tenths of a second and 100 MB of memory, and compiling some seconds once
on each machine. Plain Python reads a batch in a microsecond. So a small audit never imports numba.

numba keeps what it compiled where it can write: NUMBA_CACHE_DIR, `__pycache__` beside this module, or the user's cache directory. To know
whether that is still right it looks only at the file of a function; so the scan is a closure over a checksum of all that it is compiled
from, which is a part of the key. Where nothing can be kept, or what was kept is damaged, each process compiles for itself. Without numba,
with NUMBA_DISABLE_JIT set, or on a big-endian machine, Python reads everything.
"""

from __future__ import annotations

import os
import pickle
import pkgutil
import sys
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any, Generic, TypeVar

from replica_audit.formats.native import scan_tables
from replica_audit.formats.native.scan_tables import STATE, Words
from replica_audit.formats.segment import content_digest, hashed_records, record_batch
from replica_audit.garbage import uncollected
from replica_audit.model import BatchRun
from replica_audit.protocol.epochs import runs
from replica_audit.protocol.transactions import producer_spans

Compiled = TypeVar("Compiled")
SegmentScan = Callable[[Words, Words, Words, Words, Words, Words], int]
RecordDecoder = Callable[[int, int, int, int, int, int, Words], int]  # as `record_kernel.records`
WORTH_LOADING = 1 << 19  # batches: half a second in plain Python, as long as loading takes
WORTH_DECODING = 1 << 16  # records: the same
_DAMAGED = (OSError, EOFError, ValueError, TypeError, AttributeError, LookupError, ImportError, pickle.PickleError)


def scanner(batches: int) -> SegmentScan | None:
    """The compiled scan of segments, if this process has it or should get it to read so many batches; None if Python should read them.

    Args:
        batches: that the process has read in Python so far and those that it will have to read.
    """
    return _scanner.get(is_worth_it=batches >= WORTH_LOADING)


def record_decoder(records: int) -> RecordDecoder | None:
    """The compiled decoder of records, likewise; `records` have been or will have to be decoded in Python."""
    return _decoder.get(is_worth_it=records >= WORTH_DECODING)


class _Once(Generic[Compiled]):
    """What is compiled, or loaded, when it is first worth it."""

    def __init__(self, make: Callable[[], Compiled]) -> None:
        self._make, self._lock = make, threading.Lock()
        self._found: list[Compiled | None] = []  # once it was looked for; None: in vain

    def get(self, *, is_worth_it: bool) -> Compiled | None:
        if not self._found and is_worth_it:
            with self._lock:
                if not self._found:
                    self._found.append(_loaded(self._make))
        return self._found[0] if self._found else None


def _loaded(make: Callable[[], Compiled]) -> Compiled | None:
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0") or sys.byteorder != "little":
        return None
    with suppress(ImportError), uncollected():  # an eighth of the time of importing
        return make()
    return None


def _compiled() -> SegmentScan:
    from numba import from_dtype, types

    from replica_audit.formats.native import crc_kernel, producer_kernel, segment_kernel

    version = _version(crc_kernel, scan_tables, segment_kernel, producer_kernel, content_digest, record_batch, runs, producer_spans)

    def scan(words: Words, rows: Words, windows: Words, headers: Words, producers: Words, gaps: Words) -> int:
        return segment_kernel.scan(words, rows, windows, headers, producers, gaps) if version else 0

    table = types.int64[:, ::1]
    return _kept(types.int64(from_dtype(STATE)[::1], table, table, table, table, table), scan)


def _compiled_records() -> RecordDecoder:
    from numba import types

    from replica_audit.formats.native import crc_kernel, record_kernel

    version = _version(crc_kernel, record_kernel, hashed_records)

    def records(address: int, size: int, count: int, base_offset: int, base_timestamp: int, last_offset: int, rows: Words) -> int:
        return record_kernel.records(address, size, count, base_offset, base_timestamp, last_offset, rows) if version else 0

    return _kept(types.int64(*[types.int64] * 6, types.int64[:, ::1]), records)


def _kept(signature: Any, function: Callable[..., int]) -> Callable[..., int]:
    """A function compiled, or as it was compiled before."""
    from numba import njit

    found: Callable[..., int]
    try:
        found = njit(signature, nogil=True, cache=True)(function)
    except (RuntimeError, *_DAMAGED):
        found = njit(signature, nogil=True)(function)
    return found


def _version(*modules: ModuleType) -> int:
    """A checksum of all that something is compiled from."""
    sources = (__name__, *(module.__name__ for module in modules), BatchRun.__module__)
    return 1 << 32 | zlib.crc32(b"".join(_source(name) for name in sources))


def _source(module: str) -> bytes:
    package, _, name = module.rpartition(".")
    return pkgutil.get_data(package, f"{name}.py") or b""


_scanner, _decoder = _Once(_compiled), _Once(_compiled_records)
