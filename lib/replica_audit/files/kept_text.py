"""The text that is being read, kept open between its sections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Self

from replica_audit.files.packed_text import open_text


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
