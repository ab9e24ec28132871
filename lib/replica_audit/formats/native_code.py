"""The compiled scans of segments and of texts: got from disk where a process before has left them, compiled with numba where none has.

To import numba and to let it load what it has cached takes a process more than half a second; to link the object code that came out of it,
with llvmlite alone, a tenth. A command that reads one segment would pay for that, and every worker of a cluster. So object code is kept.

It is kept in the first of these directories that can be written to: NUMBA_CACHE_DIR, `__pycache__` beside this module, the user's cache
directory, one of the user's own in the directory for temporary files. A read-only or zipped installation is thus no obstacle, and where
nothing can be written each process compiles for itself. A file that somebody else could have written is not used, nor one that is not
whole. Without numba, on another kind of machine, or with NUMBA_DISABLE_JIT set, there is no native code, and Python reads everything.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any

SYMBOL, TEXT_SYMBOL = "replica_audit_scan_segment", "replica_audit_scan_text"
DONE, MORE = 0, 1  # what a scan returns: what follows is not for it, or it is to be called again
RUN_BYTES, WINDOW_BYTES = 80, 24  # rows of 64-bit words: the fields of `Run`; number of the window, digest, batch count
HEADER_BYTES = 80  # position of the batch, whether its CRC matches, and its first 64 bytes as they stand in the file
SKIP_FROM = 4096  # size of a batch from which on a read of the next header alone costs less than one of all the bytes between
# To read so many batches in Python takes as long as to get native code, from disk or by compiling: 0.1 s and 5 s, at 10 µs a batch.
WORTH_LOADING, WORTH_COMPILING = 10_000, 500_000
_SOURCES = ("native_code.py", "native_build.py", "segment_kernel.py", "dump_kernel.py", "crc_kernel.py", "content_digest.py")
# A form of a line has rows of five words: address and size of the bytes that begin it, what follows them, and the least and most that it
# may be. What follows is the number of a place for a number, or one of these.
FORM_ROW_BYTES, FORM_WORD, FORM_END = 40, -1, -2


class ScanState(ctypes.Structure):
    """What a scan is told and what it leaves behind, all 64-bit words. Positions and sizes are in bytes.

    The file `fd` counts as `size` long; the scan pauses behind the first batch that ends at `stop` or later. Of the file the bytes from
    `begin` to `end` are in the `buffer` of `capacity` bytes. `position` and `next_offset` are where it goes on, `last_size` is that of
    the batch before. `first_bad_crc` is -1 as long as there is none. `runs` and `windows` are the addresses of tables with `room` for
    so many rows; once there are `runs_left` runs, missing offsets end none. So is `headers`, with a row for every batch if there is room
    for any.
    """

    _fields_ = tuple(
        (name, ctypes.c_int64)
        for name in (
            *("fd", "size", "stop", "verify_crc", "buffer", "capacity", "begin", "end"),
            *("position", "next_offset", "last_size", "first_bad_crc"),
            *("runs", "run_room", "run_count", "runs_left", "windows", "window_room", "window_count"),
            *("headers", "header_room", "header_count"),
        )
    )


class TextState(ScanState):
    """The same for a text. In the `buffer` it goes on at byte `begin`, behind which it leaves it; `end` is as far as the text is there.

    `form` is the address of as many rows as `form_rows`, `numbers` that of nine words for the numbers of a line, and `intact` what its
    form says of the CRC. `lines` counts the lines that were taken, `records` those of records since the last one of a batch, which begins
    at byte `last_line`, -1 if there was none; `is_deep` is 1 once there was one of a record.
    """

    _fields_ = tuple(
        (name, ctypes.c_int64) for name in ("form", "form_rows", "numbers", "intact", "lines", "records", "is_deep", "last_line")
    )


SLOTS = {field[0]: getattr(ScanState, field[0]).offset for field in ScanState._fields_}
TEXT_SLOTS = SLOTS | {field[0]: getattr(TextState, field[0]).offset for field in TextState._fields_}
Scanner = Callable[[ScanState], int]
_lock = threading.Lock()
_scanner: Scanner | None = None
_text_scanner: Scanner | None = None
_worth = WORTH_LOADING  # from how many batches on another try to get it is worthwhile
_alive: list[Any] = []  # what owns the code's memory


def scanner(batches: int) -> Scanner | None:
    """The native scan, if this process has it or should get it to read so many batches; None if Python should read them.

    Args:
        batches: that the process has read in Python so far and those that it will have to read.
    """
    global _scanner, _worth
    if _scanner is None and batches >= _worth:
        with _lock:
            if batches >= _worth:  # no other thread has got it, or tried in vain
                _worth = sys.maxsize
                with suppress(ImportError, OSError, RuntimeError):
                    _scanner = _found(batches)
    return _scanner


def text_scanner(batches: int) -> Scanner | None:
    """The same for the lines of texts, which take a `TextState`."""
    return _text_scanner if scanner(batches) is not None else None


def _found(batches: int) -> Scanner | None:
    global _text_scanner, _worth
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0") or sys.byteorder != "little" or sys.maxsize < 1 << 32:
        return None
    from llvmlite import __version__, binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    cpu, features = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
    machine = binding.Target.from_default_triple().create_target_machine(cpu=cpu, features=features, opt=3, jit=True)
    made_from = [resources.files(__package__).joinpath(name).read_bytes() for name in _SOURCES]
    made_from += [text.encode() for text in (__version__, machine.triple, cpu, features)]
    name = f"segment-scan-{hashlib.sha256(b'|'.join(made_from)).hexdigest()[:32]}.o"
    code = _kept(name)
    if code is None:
        if batches < WORTH_COMPILING:
            _worth = WORTH_COMPILING
            return None
        from replica_audit.formats.native_build import object_code

        code = object_code(machine, features)
        _keep(name, code)
    _text_scanner = linked(binding, machine, code, TEXT_SYMBOL)
    return linked(binding, machine, code)


def linked(binding: Any, machine: Any, code: bytes, symbol: str = SYMBOL) -> Scanner:
    """Object code as a function of this process.

    Args:
        binding: `llvmlite.binding`.
        machine: the target machine that the code was made for.
        code: of the scans.
        symbol: which of them.

    Raises:
        RuntimeError: it cannot be linked.
    """
    linker = binding.create_lljit_compiler(machine)
    library = binding.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(symbol).link(linker, symbol)
    _alive.extend((linker, library))
    pointer = ctypes.POINTER(ctypes.c_int64)
    function = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, ctypes.c_void_p, ctypes.c_int64)(library[symbol])

    def scan(state: ScanState) -> int:
        result, error = ctypes.c_int64(DONE), ctypes.c_void_p()
        function(ctypes.byref(result), ctypes.addressof(error), ctypes.addressof(state))  # numba's own calling convention
        return result.value

    return scan


def _directories() -> Iterator[Path]:
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        yield Path(chosen)
    yield Path(__file__).parent / "__pycache__"
    with suppress(RuntimeError):  # nobody knows where the user's home is
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "replica-audit"
    yield Path(tempfile.gettempdir()) / f"replica-audit-{os.geteuid()}"


def _kept(name: str) -> bytes | None:
    for directory in _directories():
        with suppress(OSError), (directory / name).open("rb") as stream:
            if _trusted(os.fstat(stream.fileno())) and _trusted(directory.lstat()):
                content = stream.read()
                if content[:32] == hashlib.sha256(content[32:]).digest():
                    return content[32:]
    return None


def _keep(name: str, code: bytes) -> None:
    for directory in _directories():
        with suppress(OSError):
            if directory.name == "__pycache__" and not directory.parent.is_dir():
                continue  # inside a zip file
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _trusted(directory.lstat()):
                continue
            with tempfile.NamedTemporaryFile(dir=directory, prefix=name, delete=False) as stream:
                try:
                    stream.write(hashlib.sha256(code).digest() + code)
                    stream.close()
                    Path(stream.name).chmod(0o644)
                    Path(stream.name).rename(directory / name)
                except OSError:
                    Path(stream.name).unlink(missing_ok=True)
                    raise
            return


def _trusted(status: os.stat_result) -> bool:
    """Whether only the user, root or who installed this package can write to a file or directory that is no link."""
    owners = {0, os.geteuid()}
    with suppress(OSError):
        owners.add(Path(__file__).stat().st_uid)
    return status.st_uid in owners and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not stat.S_ISLNK(status.st_mode)
