"""Numbers of variable length: what another implementation writes is read, and nothing beyond what one may have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.util import encode_varint

from replica_audit.errors import SegmentError
from replica_audit.formats.segment.record_batch import INT_BYTES, LONG_BYTES, unsigned, zigzag


@given(st.integers(-(2**63), 2**63 - 1))
def test_what_a_client_writes_is_read(number: int) -> None:
    written = bytearray(b"before")
    encode_varint(number, written.append)
    assert zigzag(bytes(written) + b"\xff", 6) == (number, len(written))


@pytest.mark.parametrize(("data", "number"), [(b"\0", 0), (b"\x7f", 127), (b"\x80\x01", 128), (b"\xff\xff\xff\xff\x0f", 2**32 - 1)])
def test_numbers_without_a_sign(data: bytes, number: int) -> None:
    assert unsigned(data, 0) == (number, len(data))


@pytest.mark.parametrize("most", [INT_BYTES, LONG_BYTES])
def test_one_that_is_too_long_is_refused_and_the_longest_is_not(most: int) -> None:
    assert unsigned(b"\x80" * (most - 1) + b"\0", 0, most) == (0, most)
    with pytest.raises(SegmentError, match="without an end"):
        unsigned(b"\x80" * most + b"\0", 0, most)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff\xff"])
def test_one_that_is_cut_off(data: bytes) -> None:
    with pytest.raises(IndexError):
        unsigned(data, 0)
