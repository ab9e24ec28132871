"""The two ways to scan a segment, each by itself: tests hold one against the other."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

from replica_audit.formats.native import native_code
from replica_audit.formats.native.native_code import SegmentScan
from replica_audit.formats.replicas.segment_reader import scan_file
from replica_audit.formats.segment.segment_fold import Scan
from replica_audit.formats.segment.segment_scan import read_batches, scan

EVER_SO_MANY = 1 << 60  # batches: worth any price


def native_code_for_tests() -> SegmentScan:
    """The native scan, compiled if need be."""
    found = native_code.scanner(EVER_SO_MANY)
    assert found is not None, "there is no native code for this machine"
    return found


def natively(path: Path, *, verify_crc: bool = True, scanner: SegmentScan | None = None) -> Scan:
    """Scanned by native code from the first byte on."""
    chosen = scanner or native_code_for_tests()
    with mock.patch.object(native_code, "scanner", lambda _batches: chosen):
        return scan_file(path, verify_crc=verify_crc)


def one_by_one(path: Path, *, verify_crc: bool = True) -> Scan:
    """The fold of its batches."""
    return scan(read_batches(path, verify_crc=verify_crc))


def in_python(path: Path, *, verify_crc: bool = True) -> Scan:
    """Scanned without compiled code, in columns where that is possible."""
    with mock.patch.object(native_code, "scanner", lambda _batches: None):
        return scan_file(path, verify_crc=verify_crc)
