"""A text as it lies in a file: plain, packed with gzip, or in UTF-16, as PowerShell's `>` writes it; told by its first bytes."""

from __future__ import annotations

import codecs
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from replica_audit.files.locations import opened

_GZIP = b"\x1f\x8b"
_MARKS = {codecs.BOM_UTF8: "", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}  # "": nothing to convert
_CHUNK = 1 << 16
_MOST_AT_ONCE = 1 << 20
_WITH_GZIP_HEADER = 31


def open_text(path: Path) -> BinaryIO:
    """The text in a file as bytes of UTF-8, without a byte order mark: seekable and in bounded memory.

    Where it has to be unpacked or converted, seeking begins again; where that fails, the text ends (`why_cut` then says why).

    Raises:
        OSError: the file cannot be read.
    """
    plain = opened(path)
    try:
        head = plain.read(3)
        plain.seek(0)
        if head.startswith((_GZIP, *_MARKS)):
            return cast(BinaryIO, io.BufferedReader(_Converted(plain), _CHUNK))
    except BaseException:
        plain.close()
        raise
    return plain


def is_packed(stream: BinaryIO) -> bool:
    """Whether a text of `open_text` has to be unpacked or converted, and so be read from its beginning."""
    return isinstance(getattr(stream, "raw", None), _Converted)


def why_cut(stream: BinaryIO) -> str | None:
    """Why a text that was read to its end may not be all: what could not be unpacked; None if nothing was wrong."""
    raw = getattr(stream, "raw", None)
    return raw.why_cut if isinstance(raw, _Converted) else None


class _Converted(io.RawIOBase):
    def __init__(self, packed: BinaryIO) -> None:
        super().__init__()
        self.why_cut: str | None = None
        self._packed = packed
        self._begin()

    def _begin(self) -> None:
        self._position, self._rest = 0, memoryview(b"")
        self._packed.seek(0)
        self._chunks = _in_utf8(self._unpacked())

    def _unpacked(self) -> Iterator[bytes]:
        """The bytes of all members of a packed file, or those of one that is not packed."""
        head = self._packed.read(_CHUNK)
        if not head.startswith(_GZIP):
            while head:
                yield head
                head = self._packed.read(_CHUNK)
            return
        try:
            yield from self._members(head)
        except zlib.error as error:
            self.why_cut = f"it cannot be unpacked beyond byte {self._packed.tell()}, or somewhat before: {error}"

    def _members(self, packed: bytes) -> Iterator[bytes]:
        member = zlib.decompressobj(_WITH_GZIP_HEADER)
        while packed or not member.eof:
            if member.eof:
                packed = packed.lstrip(b"\0")  # padding, as tapes have it
                if packed:
                    member = zlib.decompressobj(_WITH_GZIP_HEADER)
            else:
                before = member.copy()
                try:
                    yield member.decompress(packed, _MOST_AT_ONCE)
                except zlib.error:
                    yield from _up_to_damage(before, packed)
                    raise
                packed = member.unconsumed_tail or member.unused_data
            if not packed:
                packed = self._packed.read(_CHUNK)
                if not packed and not member.eof:
                    self.why_cut = f"the packed text ends at byte {self._packed.tell()}, where more should follow"
                    return

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        wanted = offset + (self._position if whence == os.SEEK_CUR else 0)
        if whence == os.SEEK_END:
            raise io.UnsupportedOperation("its end is unknown until it is read")
        if wanted < self._position:
            self._begin()
        while self._position < wanted and self._fill():
            self._pass(min(len(self._rest), wanted - self._position))
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        if not self._fill():
            return 0
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._pass(size)
        return size

    def _fill(self) -> bool:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return False
            self._rest = memoryview(chunk)
        return True

    def _pass(self, size: int) -> None:
        self._rest = self._rest[size:]
        self._position += size

    def close(self) -> None:
        self._chunks = iter(())  # they hold this object, which would otherwise wait for the collector of cycles
        self._packed.close()
        super().close()


def _up_to_damage(member: zlib._Decompress, packed: bytes) -> Iterator[bytes]:
    """What can be unpacked before it fails: all that is before the byte where it shows."""
    with suppress(zlib.error):
        for at in range(len(packed)):
            yield member.decompress(packed[at : at + 1])


def _in_utf8(chunks: Iterator[bytes]) -> Iterator[bytes]:
    head = b""
    while len(head) < max(map(len, _MARKS)) and (chunk := next(chunks, None)) is not None:
        head += chunk
    mark = next((mark for mark in _MARKS if head.startswith(mark)), b"")
    yield from _converted(head[len(mark) :], chunks, _MARKS.get(mark, ""))


def _converted(head: bytes, chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    if not encoding:
        yield head
        yield from chunks
        return
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    yield decoder.decode(head).encode()
    for chunk in chunks:
        yield decoder.decode(chunk).encode()
    yield decoder.decode(b"", final=True).encode()
