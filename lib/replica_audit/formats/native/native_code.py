"""The compiled scan of segments, for processes that read enough to gain from it.

To import numba and have it load what it compiled before takes some tenths of a second and 100 MB of memory, and compiling some seconds once
on each machine. Plain Python reads a batch in a microsecond. So a small audit never imports numba.

numba keeps what it compiled where it can write: NUMBA_CACHE_DIR, `__pycache__` beside this module, or the user's cache directory. To know
whether that is still right it looks only at the file of a function; so the scan is a closure over a checksum of all that it is compiled
from, which is a part of the key. Where nothing can be kept, or what was kept is damaged, each process compiles for itself. Without numba,
with NUMBA_DISABLE_JIT set, on a big-endian machine, or where there is no source, Python reads everything.
"""

from __future__ import annotations

import inspect
import os
import pickle
import sys
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any

from replica_audit.formats.native import scan_tables
from replica_audit.formats.native.scan_tables import Words
from replica_audit.formats.segment import record_batch, records, segment_fold
from replica_audit.garbage import uncollected
from replica_audit.model import BatchRun
from replica_audit.protocol.epochs import epoch_table
from replica_audit.protocol.transactions import producer_spans

SegmentScan = Callable[[Words, Words, Words, Words, Words, Words], int]
RecordDecoder = Callable[[int, int, int, int, int, int, Words], int]  # as `kernels.records`
WORTH_LOADING = 1 << 19  # batches: half a second in plain Python, as long as loading takes
WORTH_DECODING = 1 << 16  # records: the same
_made: dict[Any, Any] = {}
_lock = threading.Lock()
_DAMAGED = (OSError, EOFError, ValueError, TypeError, AttributeError, LookupError, ImportError, pickle.PickleError)


def scanner(batches: int) -> SegmentScan | None:
    """The compiled scan of segments; None if Python should read so many batches, those that the process has read so far included."""
    found: SegmentScan | None = _once(_compiled, is_worth_it=batches >= WORTH_LOADING)
    return found


def record_decoder(records: int) -> RecordDecoder | None:
    """The compiled decoder of records, likewise; `records` have been or will have to be decoded in Python."""
    found: RecordDecoder | None = _once(_compiled_records, is_worth_it=records >= WORTH_DECODING)
    return found


def _once(make: Callable[[], Any], *, is_worth_it: bool) -> Any:
    """What is compiled, or loaded, when it is first worth it; None before that, and where it cannot be had."""
    if is_worth_it and make not in _made:
        with _lock:
            if make not in _made:
                is_possible = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0") and sys.byteorder == "little"
                found = None
                with suppress(ImportError, OSError), uncollected():  # that is an eighth of the time of importing
                    found = make() if is_possible else None
                _made[make] = found  # only now: another thread that reads in Python meanwhile makes loading take six times as long
    return _made.get(make)


def _compiled() -> Any:
    from numba import from_dtype, types

    from replica_audit.formats.native import kernels

    version = _version(kernels, scan_tables, segment_fold, record_batch, epoch_table, producer_spans)

    def scan(words: Words, rows: Words, windows: Words, headers: Words, producers: Words, gaps: Words) -> int:
        return kernels.scan(words, rows, windows, headers, producers, gaps) if version else 0

    return _kept(types.int64(*(from_dtype(kind)[::1] for kind in scan_tables.KINDS)), scan)


def _compiled_records() -> Any:
    from numba import from_dtype, types

    from replica_audit.formats.native import kernels

    version = _version(kernels, records, record_batch)

    def decode(address: int, size: int, count: int, base_offset: int, base_timestamp: int, last_offset: int, rows: Words) -> int:
        return kernels.records(address, size, count, base_offset, base_timestamp, last_offset, rows) if version else 0

    return _kept(types.int64(*[types.int64] * 6, from_dtype(records.KIND)[::1]), decode)


def _kept(signature: Any, function: Callable[..., int]) -> Any:
    """A function compiled, or as it was compiled before."""
    from numba import njit

    with suppress(RuntimeError, *_DAMAGED):
        return njit(signature, nogil=True, cache=True)(function)
    return njit(signature, nogil=True)(function)


def _version(*modules: ModuleType) -> int:
    """A checksum of all that something is compiled from."""
    sources = (sys.modules[__name__], *modules, sys.modules[BatchRun.__module__])
    return 1 << 32 | zlib.crc32("".join(map(inspect.getsource, sources)).encode())
