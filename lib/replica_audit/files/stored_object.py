"""What fails in an object store, in a sentence and with what to do about it; and objects as streams that fail so."""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

FIRST_READ = 1 << 16  # of an object: most are small, and of others often only the first bytes are asked for
_AWS_ERROR = re.compile(r"AWS Error (\w+)(?: during (\w+) operation)?: ?(.*)", re.DOTALL)


class StoreError(OSError):
    """What a store answered. `remedy` says what to do about it."""

    def __init__(self, number: int, detail: str, remedy: str) -> None:
        super().__init__(number, detail)
        self.remedy = remedy


@contextmanager
def told_plainly() -> Iterator[None]:
    """Tell what fails in a sentence, with what to do about it."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, "does not exist in the store") from None
    except OSError as error:
        raise _as_store_error(error) from None
    except Exception as error:
        from pyarrow import ArrowException

        if not isinstance(error, ValueError | NotImplementedError | ImportError | ArrowException):
            raise
        # a URI or a setting that pyarrow cannot use, a store that it lacks, or credentials that the store's own library does not find
        why = " ".join(str(error).split())[:300]
        raise StoreError(errno.EINVAL, why, "check the URI, the store's settings and its credentials") from None


def _as_store_error(error: OSError) -> StoreError:
    if isinstance(error, StoreError):
        return error
    text = " ".join(str(error).split())
    match = _AWS_ERROR.search(text)
    code, detail = (match[1], f"{match[1]}: {match[3] or match[2] or text}") if match else ("", text)
    if code == "ACCESS_DENIED" or "HTTP response code 403" in text:
        return StoreError(errno.EACCES, detail, "let the audit's credentials list the bucket and read its objects")
    if code in ("INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "EXPIRED_TOKEN", "INVALID_CLIENT_TOKEN_ID"):
        return StoreError(errno.EACCES, detail, "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN")
    if code in ("NETWORK_CONNECTION", "REQUEST_TIMEOUT", "SLOW_DOWN"):
        return StoreError(errno.EIO, detail, "check that the store can be reached (AWS_ENDPOINT_URL_S3, AWS_REGION), and audit again")
    return StoreError(errno.EIO, detail, "audit again; if it fails again, check the bucket, its region and the credentials")


class StoredObject(io.RawIOBase):
    """A `pyarrow.NativeFile` whose errors are told like all others. `head` are its first bytes, if they were read already."""

    def __init__(self, file: Any, head: bytes = b"") -> None:
        """Take an opened file."""
        super().__init__()
        self._file, self._head = file, head
        self._at = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go there; nothing is asked of the store."""
        begin = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._file.size()}[whence]
        self._at = max(0, begin + offset)
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        """Read as much as fits, or the first bytes only."""
        wanted = memoryview(buffer)[:FIRST_READ] if self._at == 0 else buffer
        if self._at < len(self._head):
            found = self._head[self._at : self._at + len(wanted)]
            wanted[: len(found)] = found
            count = len(found)
        elif self._at >= self._file.size():
            return 0
        else:
            with told_plainly():
                self._file.seek(self._at)
                count = int(self._file.readinto(wanted))
        self._at += count
        return count

    def close(self) -> None:
        """Let go of it."""
        if not self.closed:
            self._file.close()
        super().close()
