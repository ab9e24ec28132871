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

from replica_audit.formats.native import scan_tables
from replica_audit.formats.native.scan_tables import STATE, Words
from replica_audit.formats.segment import content_digest, record_batch
from replica_audit.garbage import uncollected
from replica_audit.model import BatchRun
from replica_audit.protocol.epochs import runs
from replica_audit.protocol.transactions import producer_spans

SegmentScan = Callable[[Words, Words, Words, Words, Words, Words], int]
WORTH_LOADING = 1 << 19  # batches: half a second in plain Python, as long as loading takes
_DAMAGED = (OSError, EOFError, ValueError, TypeError, AttributeError, LookupError, ImportError, pickle.PickleError)
_lock = threading.Lock()
_found: list[SegmentScan | None] = []  # once it was looked for; None: in vain


def scanner(batches: int) -> SegmentScan | None:
    """The compiled scan of segments, if this process has it or should get it to read so many batches; None if Python should read them.

    Args:
        batches: that the process has read in Python so far and those that it will have to read.
    """
    if not _found and batches >= WORTH_LOADING:
        with _lock:
            if not _found:
                _found.append(_loaded())
    return _found[0] if _found else None


def _loaded() -> SegmentScan | None:
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0") or sys.byteorder != "little":
        return None
    with suppress(ImportError), uncollected():  # an eighth of the time of importing
        return _compiled()
    return None


def _compiled() -> SegmentScan:
    from numba import from_dtype, njit, types

    from replica_audit.formats.native import crc_kernel, producer_kernel, segment_kernel

    compiled = (crc_kernel, scan_tables, segment_kernel, producer_kernel, content_digest, record_batch, runs, producer_spans)
    sources = (__name__, *(module.__name__ for module in compiled), BatchRun.__module__)
    version = 1 << 32 | zlib.crc32(b"".join(_source(name) for name in sources))

    def scan(words: Words, rows: Words, windows: Words, headers: Words, producers: Words, gaps: Words) -> int:
        return segment_kernel.scan(words, rows, windows, headers, producers, gaps) if version else 0

    table = types.int64[:, ::1]
    signature = types.int64(from_dtype(STATE)[::1], table, table, table, table, table)
    found: SegmentScan
    try:
        found = njit(signature, nogil=True, cache=True)(scan)
    except (RuntimeError, *_DAMAGED):
        found = njit(signature, nogil=True)(scan)
    return found


def _source(module: str) -> bytes:
    package, _, name = module.rpartition(".")
    return pkgutil.get_data(package, f"{name}.py") or b""
