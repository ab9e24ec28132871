"""What is opened of an input: ordinary files, without waiting, and nothing to which a link leads out of it."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from replica_audit.files import opened
from replica_audit.files.locations import entries
from replica_audit.files.opened import LinkOutsideError, NotAFileError, confine, open_descriptor, open_file, open_folder, open_in, release


@pytest.fixture
def given(tmp_path: Path) -> Iterator[Path]:
    """A confined folder `given` beside a folder `outside` that holds a file `secret`."""
    root, outside = tmp_path / "given", tmp_path / "outside"
    (root / "folder").mkdir(parents=True)
    outside.mkdir()
    (root / "file").write_bytes(b"inside")
    (outside / "secret").write_bytes(b"outside")
    confine([root])
    yield root
    release([root])


def _read(path: Path) -> bytes:
    with open_file(path) as stream:
        return stream.read()


def test_an_ordinary_file_is_read(given: Path) -> None:
    assert _read(given / "file") == b"inside"


def test_a_link_within_the_folder_is_followed(given: Path) -> None:
    (given / "..data").symlink_to("folder")
    (given / "folder" / "there").write_bytes(b"mounted")
    (given / "link").symlink_to("..data/there")
    assert _read(given / "link") == _read(given / "..data" / "there") == b"mounted"


@pytest.mark.parametrize("target", ["../outside/secret", "/dev/null", "/etc/passwd"])
def test_a_link_out_of_the_folder_is_not_opened(given: Path, target: str) -> None:
    (given / "link").symlink_to(target)
    with pytest.raises(LinkOutsideError, match="leads out of") as caught:
        open_descriptor(given / "link")
    assert (caught.value.filename, caught.value.code) == (str(given / "link"), "link-outside")


def test_a_file_in_a_linked_folder_outside_is_not_opened(given: Path) -> None:
    (given / "there").symlink_to("../outside")
    for refused in (lambda: open_descriptor(given / "there" / "secret"), lambda: open_folder(given / "there")):
        with pytest.raises(LinkOutsideError):
            refused()
    with pytest.raises(LinkOutsideError), entries(given / "there"):
        pass


def test_a_folder_that_is_a_link_itself_was_chosen(given: Path, tmp_path: Path) -> None:
    chosen = tmp_path / "chosen"
    chosen.symlink_to("outside")
    confine([chosen])
    try:
        assert _read(chosen / "secret") == b"outside"
        (tmp_path / "outside" / "link").symlink_to(given / "file")
        with pytest.raises(LinkOutsideError):
            open_descriptor(chosen / "link")
    finally:
        release([chosen])


def test_a_released_folder_may_have_links_out_of_it(given: Path) -> None:
    (given / "link").symlink_to("../outside/secret")
    release([given])
    assert _read(given / "link") == b"outside"


def test_another_process_is_confined_alike(given: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (given / "link").symlink_to("../outside/secret")
    told = opened.confined()
    monkeypatch.setattr(opened, "_roots", {"/elsewhere": "/elsewhere"})
    assert _read(given / "link") == b"outside"
    opened.confine_only(told)
    with pytest.raises(LinkOutsideError):
        open_descriptor(given / "link")


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    os.chdir(path.parent)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)


@pytest.mark.parametrize("make", [Path.mkdir, _pipe, _socket, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_ordinary_file_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]) -> None:
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "thing")
    with pytest.raises(NotAFileError, match="not a regular file"):
        open_descriptor(tmp_path / "thing")


def test_a_name_in_an_open_folder(given: Path) -> None:
    (given / "link").symlink_to("../outside/secret")
    (given / "inner").symlink_to("file")
    folder = open_folder(given)
    try:
        for name in ("file", "inner"):
            found = open_in(folder, name)
            assert os.read(found, 9) == b"inside"
            os.close(found)
        with pytest.raises(LinkOutsideError):
            open_in(folder, "link")
    finally:
        os.close(folder)


@pytest.mark.parametrize("swapped", ["file", "folder"])
def test_a_file_or_folder_is_swapped_for_a_link_while_it_is_opened(
    given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    """Whatever was seen of a name before, what was opened is asked."""
    real_open, before = os.open, len(list(Path("/proc/self/fd").iterdir()))
    (given / "folder" / "secret").write_bytes(b"inside")
    path = given / "file" if swapped == "file" else given / "folder" / "secret"

    def swap_first(name: str, flags: int, *more: object, **others: int) -> int:
        monkeypatch.setattr(os, "open", real_open)
        if swapped == "file":
            path.unlink()
            path.symlink_to("../outside/secret")
        else:
            (given / "folder").rename(tmp_path / "moved")
            (given / "folder").symlink_to("../outside")
        return real_open(name, flags)

    monkeypatch.setattr(os, "open", swap_first)
    with pytest.raises(LinkOutsideError):
        open_descriptor(path)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
