"""Text files: plain, packed or in UTF-16, kept open between their sections, read line by line in bounded memory."""

from __future__ import annotations

import codecs
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Self, cast

from replica_audit.files.locations import opened
from replica_audit.files.opened import RawReader

# A text as it lies in a file: plain, packed with gzip, or in UTF-16, as PowerShell's `>` writes it; told by its first bytes.

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


class _Converted(RawReader):
    def __init__(self, packed: BinaryIO) -> None:
        super().__init__()
        self.why_cut: str | None = None
        self._packed = packed
        self._begin()

    def _begin(self) -> None:
        self.at, self._rest = 0, memoryview(b"")
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

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        wanted = offset + (self.at if whence == os.SEEK_CUR else 0)
        if whence == os.SEEK_END:
            raise io.UnsupportedOperation("its end is unknown until it is read")
        if wanted < self.at:
            self._begin()
        while self.at < wanted and self._fill():
            self._pass(min(len(self._rest), wanted - self.at))
        return self.at

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
        self.at += size

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


# The text that is being read, kept open between its sections.


class KeptText:
    """One text at a time, open from its first reader to that of another one: the next section of a packed text is unpacked from there on.

    To be used in a `with`, for one task and no longer: by the next one, a file may be another. Sections are read one after the other.
    """

    def __init__(self) -> None:
        self._path: Path | None = None
        self._stream: BinaryIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._close()

    @contextmanager
    def at(self, path: Path) -> Iterator[BinaryIO]:
        """The text in a file, as of `open_text`, wherever the reader before has left it.

        Raises:
            OSError: the file cannot be read.
        """
        if self._stream is None or path != self._path:
            self._close()
            self._path, self._stream = path, open_text(path)
        try:
            yield self._stream
        except OSError:
            self._close()  # read on, it would seem to end here
            raise

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._path = self._stream = None


# The lines of a long text, one at a time or many at once, in bounded memory.

LONGEST_LINE = 1 << 16  # what is kept of a line, in bytes; batch lines have some 400
MOST_ABOVE = 1 << 12  # what is kept of what was passed, in bytes
_LINES_AT_ONCE = 1 << 19


class TextLines:
    """The lines of a stream from a byte on, where it is.

    The next line begins at byte `at`, and is number `number`. `chunk` holds text that was read, from byte `begin` of it on what is next.
    """

    def __init__(self, stream: BinaryIO, at: int, end: int, number: int = 1, *, at_once: int = _LINES_AT_ONCE) -> None:
        """Read up to the byte `end` (exclusive), or to the end of the stream, so many bytes at once."""
        self.at, self.number = at, number
        self.chunk, self.begin = b"", 0
        self._stream, self._left, self._at_once = stream, end - at, at_once

    def take(self) -> bytes:
        """The next line with its end; of a longer one than LONGEST_LINE the beginning, with an end if it has one. b"" at the end."""
        found = self._line_end(LONGEST_LINE)
        line = self.chunk[self.begin : found]
        is_long = len(line) == LONGEST_LINE and not line.endswith(b"\n")
        self._pass(found)
        while is_long and self.fill():
            found = self._line_end(LONGEST_LINE)
            ended = self.chunk[found - 1] == ord("\n")
            self._pass(found)
            if ended:
                line += b"\n"
                break
        self.number += 1
        return line

    def fill(self) -> bool:
        """Have more of the text in `chunk`, if it is all passed; whether there is any."""
        if self.begin == len(self.chunk):
            self._read()
        return self.begin < len(self.chunk)

    def whole(self, most: int) -> bytes:
        """The next lines that are whole in `chunk`, up to the first one of a record, some `most` bytes of them."""
        stop = self.begin + most
        is_deep = self.chunk.find(b"|", self.begin, stop) >= 0  # to look for one byte takes a tenth of the time
        end = self.chunk.find(b"\n|", self.begin, stop) if is_deep else -1
        end = self.chunk.rfind(b"\n", self.begin, stop) if end < 0 else end
        return self.chunk[self.begin : end + 1] if end >= 0 else b""

    def read_on(self) -> bool:
        """Have at least one whole line in `chunk`, or one that is too long; whether it was not there before and now may be."""
        before = len(self.chunk) - self.begin
        if before > LONGEST_LINE:
            return False
        self._read()
        return len(self.chunk) - self.begin > before

    def passed(self, size: int, lines: int) -> None:
        """Pass so many bytes of `chunk`, that are so many lines."""
        self.number += lines
        self._pass(self.begin + size)

    def skip_to(self, start: bytes) -> bytes:
        """Pass the lines before the next one that begins with some bytes, if there is any, else all but the last.

        Returns the end of what was passed.
        """
        mark, above = b"\n" + start, b""
        while True:
            if self.chunk.startswith(start, self.begin):
                return above
            found = self.chunk.find(mark, self.begin)
            behind = found + 1 if found >= 0 else self.chunk.rfind(b"\n", self.begin) + 1
            if behind > self.begin:
                above = (above + self.chunk[max(self.begin, behind - MOST_ABOVE) : behind])[-MOST_ABOVE:]
                self.passed(behind - self.begin, self.chunk.count(b"\n", self.begin, behind))
            if found >= 0:
                return above
            if len(self.chunk) - self.begin > LONGEST_LINE or not self.read_on():
                return above

    def _line_end(self, most: int) -> int:
        """Where the next line ends in `chunk`, so many bytes on at most."""
        seen = self.begin
        while (found := self.chunk.find(b"\n", seen, self.begin + most)) < 0 and len(self.chunk) - self.begin < most:
            unread = len(self.chunk) - self.begin
            self._read()
            seen = unread  # the line begins the chunk now
            if len(self.chunk) == unread:
                break
        return min(self.begin + most, len(self.chunk)) if found < 0 else found + 1

    def _pass(self, to: int) -> None:
        self.at += to - self.begin
        self.begin = to

    def _read(self) -> None:
        more = self._stream.read(min(self._at_once, self._left)) if self._left > 0 else b""
        self._left -= len(more)
        self.chunk = self.chunk[self.begin :] + more
        self.begin = 0
