"""The lines of a long text, one at a time or many at once, in bounded memory."""

from __future__ import annotations

from typing import BinaryIO

LONGEST_LINE = 1 << 16  # what is kept of a line, in bytes; batch lines have some 400
MOST_ABOVE = 1 << 12  # what is kept of what was passed, in bytes
_CHUNK = 1 << 19


class TextLines:
    """The lines of a stream from a byte on, where it is.

    The next line begins at byte `at`, and is number `number`. `chunk` holds text that was read, from byte `begin` of it on what is next.
    """

    def __init__(self, stream: BinaryIO, at: int, end: int, number: int = 1, *, at_once: int = _CHUNK) -> None:
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
