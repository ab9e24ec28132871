"""The compiled scans of segments and of texts, for processes that read enough to gain from them.

To import numba and have it load what it compiled before takes more than half a second and 100 MB of memory, and compiling some seconds once
on each machine. Plain Python reads a batch in a microsecond, a line of a text in six. So a small audit never imports numba.

numba keeps what it compiled where it can write: NUMBA_CACHE_DIR, `__pycache__` beside this module, or the user's cache directory. To know
whether that is still right it looks only at the file of a function; so each scan is a closure over a checksum of all that it is compiled
from, which is a part of the key. Where nothing can be kept, or what was kept is damaged, each process compiles for itself. Without numba,
with NUMBA_DISABLE_JIT set, or on a big-endian machine, Python reads everything.
"""

from __future__ import annotations

import gc
import os
import pickle
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import resources
from typing import Any

from replica_audit.formats.native.scan_tables import STATE, Words

SegmentScan = Callable[[Words, Words, Words, Words], int]
TextScan = Callable[[Words, Words, Words, Words, Words], int]
WORTH_LOADING = {"segment": 1 << 20, "text": 1 << 17}  # batches, lines: a second in plain Python
_SOURCES = (
    *(f"formats/native/{name}" for name in ("native_code", "crc_kernel", "dump_kernel", "scan_tables", "segment_kernel")),
    "formats/segment/content_digest",
    "formats/segment/record_batch",
    "protocol/epochs/runs",
)
_DAMAGED = (OSError, EOFError, ValueError, TypeError, AttributeError, LookupError, ImportError, pickle.PickleError)
_lock = threading.Lock()
_scans: dict[str, Any] = {}  # by kind; None: tried in vain


def scanner(batches: int) -> SegmentScan | None:
    """The compiled scan of segments, if this process has it or should get it to read so many batches; None if Python should read them.

    Args:
        batches: that the process has read in Python so far and those that it will have to read.
    """
    found: SegmentScan | None = _found("segment", batches)
    return found


def text_scanner(lines: int) -> TextScan | None:
    """The same for the lines of texts."""
    found: TextScan | None = _found("text", lines)
    return found


def _found(kind: str, count: int) -> Any:
    if kind not in _scans and count >= WORTH_LOADING[kind]:
        with _lock:
            if kind not in _scans:
                _scans[kind] = None
                if os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0") and sys.byteorder == "little":
                    with suppress(ImportError), _no_collector():  # which would take an eighth of the time of importing
                        _scans[kind] = _compiled(kind)
    return _scans.get(kind)


@contextmanager
def _no_collector() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _compiled(kind: str) -> Any:
    from numba import from_dtype, njit, types

    from replica_audit.formats.native import dump_kernel, segment_kernel

    version = 1 << 32 | zlib.crc32(b"".join(map(_source, _SOURCES)))

    def scan_segment(words: Words, runs: Words, windows: Words, headers: Words) -> int:
        return segment_kernel.scan(words, runs, windows, headers) if version else 0

    def scan_text(words: Words, runs: Words, windows: Words, form: Words, numbers: Words) -> int:
        return dump_kernel.scan(words, runs, windows, form, numbers) if version else 0

    table = types.int64[:, ::1]
    more, function = ((), scan_segment) if kind == "segment" else ((types.int64[::1],), scan_text)
    signature = types.int64(from_dtype(STATE)[::1], table, table, table, *more)
    try:
        return njit(signature, nogil=True, cache=True)(function)
    except (RuntimeError, *_DAMAGED):
        return njit(signature, nogil=True)(function)


def _source(module: str) -> bytes:
    return resources.files("replica_audit").joinpath(f"{module}.py").read_bytes()
