"""Object stores through pyarrow: listing, size, and reading by ranges, without Hadoop and without a JVM.

S3 is told where it is and who asks by the variables that AWS defines; tasks get those of the driver (`storage.session`):

    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN     or whatever else the AWS SDK finds on the machine
    AWS_REGION, AWS_DEFAULT_REGION                                  or asked of the bucket
    AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL                           of another store that speaks the protocol
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from replica_audit.files.opened import RawReader

if TYPE_CHECKING:
    import pyarrow.fs


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


class StoredObject(RawReader):
    """A `pyarrow.NativeFile` whose errors are told like all others. `head` are its first bytes, if they were read already."""

    def __init__(self, file: Any, head: bytes = b"") -> None:
        """Take an opened file."""
        super().__init__()
        self._file, self._head = file, head

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go there; nothing is asked of the store."""
        begin = {os.SEEK_SET: 0, os.SEEK_CUR: self.at, os.SEEK_END: self._file.size()}[whence]
        self.at = max(0, begin + offset)
        return self.at

    def readinto(self, buffer: Any, /) -> int:
        """Read as much as fits, or the first bytes only."""
        wanted = memoryview(buffer)[:FIRST_READ] if self.at == 0 else buffer
        if self.at < len(self._head):
            found = self._head[self.at : self.at + len(wanted)]
            wanted[: len(found)] = found
            count = len(found)
        elif self.at >= self._file.size():
            return 0
        else:
            with told_plainly():
                self._file.seek(self.at)
                count = int(self._file.readinto(wanted))
        self.at += count
        return count

    def close(self) -> None:
        """Let go of it."""
        if not self.closed:
            self._file.close()
        super().close()


S3_SCHEMES = ("s3", "s3a", "s3n")
VARIABLES = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
)
_TRIES, _CONNECT_SECONDS, _REQUEST_SECONDS = 4, 5, 30
_NO_FOLDERS = "gs://"  # where Arrow tells of no folder that has no object of its own
_KEPT, _KEPT_SECONDS = 10_000, 60  # of what listings told: it saves asking again for each object, but processes outlive audits
Listings = Mapping[str, list[tuple[str, bool, int]]]  # by folder: name, is a folder, size in bytes
_ahead: dict[str, Callable[[str], Any]] = {}  # by URI, who has read the beginning of an object already


@dataclass(frozen=True, slots=True)
class _Store:
    """Where the objects of a bucket are: `base` is the path of the bucket in `system`.

    `known` is what was told of its names, and when; `held` what listings told that somebody still works with. Of each name: whether it is a
    folder, and its size in bytes. `trees` are whole listings, and when they were made, by the path that they begin at.
    """

    system: pyarrow.fs.FileSystem
    base: str
    known: OrderedDict[str, tuple[float, tuple[bool, int]]] = field(default_factory=OrderedDict)
    held: dict[int, dict[str, tuple[bool, int]]] = field(default_factory=dict)
    trees: dict[str, tuple[float, Listings]] = field(default_factory=dict)

    def remember(self, path: str, told: tuple[bool, int]) -> None:
        self.known[path] = time.monotonic(), told
        while len(self.known) > _KEPT:
            self.known.popitem(last=False)

    def remembered(self, path: str) -> tuple[bool, int] | None:
        for names in list(self.held.values()):
            if path in names:
                return names[path]
        told_at, told = self.known.get(path, (0.0, None))
        return told if time.monotonic() - told_at < _KEPT_SECONDS else None

    def tree(self, path: str) -> Listings:
        """What is in each folder below a path, that included, by one listing of it all."""
        from pyarrow import fs

        with told_plainly():
            return folded(path, self.system.get_file_info(fs.FileSelector(path, recursive=True)))

    def kept_tree(self, path: str) -> Listings:
        """The same, made now, or a moment ago of the path or of what it lies in."""
        for top, (told_at, folders) in self.trees.items():
            if time.monotonic() - told_at < _KEPT_SECONDS and (top == path or path.startswith(f"{top}/")):
                return folders
        found = self.tree(path)
        self.trees.clear()
        self.trees[path] = time.monotonic(), found
        return found


def folded(top: str, found: Iterable[pyarrow.fs.FileInfo]) -> Listings:
    """What is in each folder below a path, that included; whether or not a listing told of folders, for not every store has any."""
    folders: dict[str, dict[tuple[str, bool], int]] = {top: {}}
    for info in found:
        path, is_folder, size = info.path.rstrip("/"), info.type.name == "Directory", info.size or 0
        while path.startswith(f"{top}/"):
            parent, _, name = path.rpartition("/")
            inside = folders.setdefault(parent, {})
            if name:
                is_known = (name, is_folder) in inside
                inside[name, is_folder] = size
                if is_known:
                    break
            path, is_folder, size = parent, True, 0
    return {path: [(*name, size) for name, size in inside.items()] for path, inside in folders.items()}


def listing(uri: str) -> list[tuple[str, bool, int]]:
    """(name, is a folder, size in bytes) of what is right below a folder.

    Raises:
        FileNotFoundError: there is nothing below that name.
        StoreError: it cannot be listed.
    """
    from pyarrow import fs

    store, path = _placed(uri)
    if uri.startswith(_NO_FOLDERS):
        told = store.kept_tree(path).get(path, [])
        if not told:
            raise FileNotFoundError(errno.ENOENT, "does not exist in the store")
    else:
        with told_plainly():
            found = store.system.get_file_info(fs.FileSelector(path))
        told = [(info.base_name, info.type == fs.FileType.Directory, info.size or 0) for info in found if info.base_name]
    for name, is_folder, size in told:
        store.remember(f"{path}/{name}", (is_folder, size))
    return told


@contextmanager
def listed_below(uri: str) -> Iterator[Listings | None]:
    """What is in each folder below one, that included, by their URIs, by one listing of it all: of S3, a request for a thousand names.

    What it told counts until the block ends. None if it cannot be listed so.
    """
    try:
        store, path = _placed(uri)
        folders = store.kept_tree(path) if uri.startswith(_NO_FOLDERS) else store.tree(path)
    except OSError:
        yield None
        return
    below = {uri.rstrip("/") + at[len(path) :]: names for at, names in folders.items() if at == path or at.startswith(f"{path}/")}
    told = {
        f"{at}/{name}": (is_folder, size) for at in folders for name, is_folder, size in sorted(folders[at], key=lambda entry: not entry[1])
    }  # of an object and a folder of one name the object counts
    store.held[id(told)] = told
    try:
        yield below
    finally:
        del store.held[id(told)]


def kind_and_size(uri: str) -> tuple[bool, int]:
    """Whether a name is a folder, and else the size of the object in bytes.

    Raises:
        FileNotFoundError: there is nothing of that name.
        StoreError: the store does not say.
    """
    from pyarrow import fs

    store, path = _placed(uri)
    told = store.remembered(path)
    if told is None:
        with told_plainly():
            info = store.system.get_file_info(path)
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(errno.ENOENT, "does not exist in the store")
        told = info.type == fs.FileType.Directory, info.size or 0
        store.remember(path, told)
    return told


def opened(uri: str) -> Any:
    """A seekable stream of an object, each read of which is a request for a range.

    Raises:
        FileNotFoundError: there is no such object.
        StoreError: it cannot be opened.
    """
    if (take := _ahead.pop(uri, None)) is not None and (taken := take(uri)) is not None:
        return taken
    store, path = _placed(uri)
    with told_plainly():
        file = store.system.open_input_file(path)
        store.remember(path, (False, file.size()))
    return StoredObject(file)


def created(uri: str) -> Any:
    """Return a stream that writes an object, which is there once it is closed.

    Raises:
        StoreError: it cannot be written.
    """
    store, path = _placed(uri)
    with told_plainly():
        return store.system.open_output_stream(path)


def remove(uri: str) -> None:
    """Remove an object.

    Raises:
        StoreError: it cannot be removed.
    """
    store, path = _placed(uri)
    with told_plainly():
        store.system.delete_file(path)


def read_ahead(uri: str, take: Callable[[str], Any]) -> None:
    """Let the next who opens an object have what `take` gives, unless that is None."""
    _ahead[uri] = take


def forget_ahead(uri: str) -> None:
    """Take `read_ahead` back."""
    _ahead.pop(uri, None)


def begun(uri: str) -> Any:
    """What `opened` gives, with the first bytes already read.

    Raises:
        OSError: as of `opened`.
    """
    store, path = _placed(uri)
    with told_plainly():
        file = store.system.open_input_file(path)
        return StoredObject(file, file.read(FIRST_READ))


def _placed(uri: str) -> tuple[_Store, str]:
    """The store of a URI, and the path in its file system."""
    scheme, _, rest = uri.partition("://")
    authority, _, path = rest.partition("/")
    settings = tuple(os.environ.get(name, "") for name in VARIABLES)
    with told_plainly():
        store = _store(scheme, authority, settings)
    return store, f"{store.base.rstrip('/')}/{path}".rstrip("/") or "/"


@cache
def _store(scheme: str, authority: str, _settings: tuple[str, ...]) -> _Store:
    from pyarrow import fs

    if scheme not in S3_SCHEMES:
        return _Store(*fs.FileSystem.from_uri(f"{scheme}://{authority}/"))
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
    return _Store(system, authority)
