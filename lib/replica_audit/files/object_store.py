"""Object stores through pyarrow: listing, size, and reading by ranges, without Hadoop and without a JVM.

S3 is told where it is and who asks by the variables that AWS defines; tasks get those of the driver (`storage.session`):

    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN     or whatever else the AWS SDK finds on the machine
    AWS_REGION, AWS_DEFAULT_REGION                                  or asked of the bucket
    AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL                           of another store that speaks the protocol
"""

from __future__ import annotations

import errno
import io
import os
import re
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow.fs

S3_SCHEMES = ("s3", "s3a", "s3n")
VARIABLES = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
)
_TRIES, _CONNECT_SECONDS, _REQUEST_SECONDS = 4, 5, 30
_FIRST_READ = 1 << 16  # of an object: most are small, and of others often only the first bytes are asked for
_KEPT, _KEPT_SECONDS = 10_000, 60  # of what listings told: it saves asking again for each object, but processes outlive audits
_AWS_ERROR = re.compile(r"AWS Error (\w+)(?: during (\w+) operation)?: ?(.*)", re.DOTALL)


class StoreError(OSError):
    """What a store answered. `remedy` says what to do about it."""

    def __init__(self, number: int, detail: str, remedy: str) -> None:
        super().__init__(number, detail)
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class _Store:
    """Where the objects of a bucket are: `base` is the path of the bucket in `system`. `known` is what was told of its names."""

    system: pyarrow.fs.FileSystem
    base: str
    known: OrderedDict[str, tuple[float, pyarrow.fs.FileInfo]]

    def remember(self, path: str, info: pyarrow.fs.FileInfo) -> None:
        self.known[path] = time.monotonic(), info
        while len(self.known) > _KEPT:
            self.known.popitem(last=False)

    def remembered(self, path: str) -> pyarrow.fs.FileInfo | None:
        told_at, info = self.known.get(path, (0.0, None))
        return info if time.monotonic() - told_at < _KEPT_SECONDS else None


def listing(uri: str) -> list[tuple[str, bool, int]]:
    """(name, is a folder, size in bytes) of what is right below a folder.

    Raises:
        FileNotFoundError: there is nothing below that name.
        StoreError: it cannot be listed.
    """
    from pyarrow import fs

    store, path = _placed(uri)
    with _told():
        found = store.system.get_file_info(fs.FileSelector(path))
    for info in found:
        store.remember(f"{path}/{info.base_name}", info)
    return [(info.base_name, info.type == fs.FileType.Directory, info.size or 0) for info in found if info.base_name]


def kind_and_size(uri: str) -> tuple[bool, int]:
    """Whether a name is a folder, and else the size of the object in bytes.

    Raises:
        FileNotFoundError: there is nothing of that name.
        StoreError: the store does not say.
    """
    from pyarrow import fs

    store, path = _placed(uri)
    info = store.remembered(path)
    if info is None:
        with _told():
            info = store.system.get_file_info(path)
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(errno.ENOENT, "does not exist in the store")
        store.remember(path, info)
    return info.type == fs.FileType.Directory, info.size or 0


def opened(uri: str) -> Any:
    """A seekable stream of an object, each read of which is a request for a range.

    Raises:
        FileNotFoundError: there is no such object.
        StoreError: it cannot be opened.
    """
    store, path = _placed(uri)
    with _told():
        return _Object(store.system.open_input_file(path))


def _placed(uri: str) -> tuple[_Store, str]:
    """The store of a URI, and the path in its file system."""
    scheme, _, rest = uri.partition("://")
    authority, _, path = rest.partition("/")
    settings = tuple(os.environ.get(name, "") for name in VARIABLES)
    with _told():
        store = _store(scheme, authority, settings)
    return store, f"{store.base.rstrip('/')}/{path}".rstrip("/") or "/"


@cache
def _store(scheme: str, authority: str, _settings: tuple[str, ...]) -> _Store:
    from pyarrow import fs

    if scheme not in S3_SCHEMES:
        return _Store(*fs.FileSystem.from_uri(f"{scheme}://{authority}/"), OrderedDict())
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region and not endpoint:
        region = fs.resolve_s3_region(authority)
    protocol, _, host = endpoint.rstrip("/").rpartition("://")
    system = fs.S3FileSystem(
        region=region,
        endpoint_override=host or None,
        scheme="http" if protocol == "http" else "https",
        connect_timeout=_CONNECT_SECONDS,
        request_timeout=_REQUEST_SECONDS,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_TRIES),
    )
    return _Store(system, authority, OrderedDict())


@contextmanager
def _told() -> Iterator[None]:
    """Tell what fails in a sentence, with what to do about it."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, "does not exist in the store") from None
    except OSError as error:
        raise _as_store_error(error) from None
    except (ValueError, NotImplementedError, ImportError) as error:  # a URI or a setting that pyarrow cannot use, or a store it lacks
        raise StoreError(errno.EINVAL, " ".join(str(error).split()), "check the URI and the store's settings") from None


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


class _Object(io.RawIOBase):
    """A `pyarrow.NativeFile` whose errors are told like all others."""

    def __init__(self, file: Any) -> None:
        super().__init__()
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return int(self._file.tell())

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        return int(self._file.seek(offset, whence))

    def readinto(self, buffer: Any, /) -> int:
        wanted = memoryview(buffer)[:_FIRST_READ] if self._file.tell() == 0 else buffer
        with _told():
            return int(self._file.readinto(wanted))

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
