"""The two ways to scan a segment, each by itself: tests hold one against the other."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

from replica_audit.formats import native_code
from replica_audit.formats.native_code import Scanner
from replica_audit.formats.segment_scan import Scan, scan_file

EVER_SO_MANY = 1 << 60  # batches: worth any price


def native_code_for_tests() -> Scanner:
    """The native scan, compiled if need be."""
    found = native_code.scanner(EVER_SO_MANY)
    assert found is not None, "there is no native code for this machine"
    return found


def natively(path: Path, *, verify_crc: bool = True, mapped: bool = False, scanner: Scanner | None = None) -> Scan:
    """Scanned by native code from the first byte on."""
    chosen = scanner or native_code_for_tests()
    with mock.patch.object(native_code, "scanner", lambda _batches: chosen):
        return scan_file(path, verify_crc=verify_crc, mapped=mapped)


def in_python(path: Path, *, verify_crc: bool = True) -> Scan:
    """Scanned by Python to the end."""
    with mock.patch.object(native_code, "scanner", lambda _batches: None):
        return scan_file(path, verify_crc=verify_crc)
