"""Where compiled code is kept and got from: read-only installations, places that others write to, files that are not whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from replica_audit.formats import native_build, native_code
from replica_audit.formats.native_code import WORTH_COMPILING, WORTH_LOADING, scanner
from tests.formats import kafka_files as kf
from tests.formats.rights import as_nobody, open_to_all
from tests.formats.segment_readers import EVER_SO_MANY, native_code_for_tests

LIB = Path(__file__).parents[2] / "lib"
SCAN = """
import sys
from pathlib import Path
from replica_audit.formats import native_code, segment_scan
native_code.scanner(1 << 60)
found = segment_scan.scan_file(Path(sys.argv[1]))
print(len(found.runs), native_code._scanner is not None, "numba" in sys.modules)
"""


@pytest.fixture(scope="module")
def code() -> bytes:
    """The object code for this machine; got once, for compiling takes seconds."""
    native_code_for_tests()
    for directory in native_code._directories():
        for path in sorted(directory.glob("segment-scan-*.o"), key=lambda path: path.stat().st_mtime, reverse=True):
            return path.read_bytes()
    raise AssertionError("it was not kept")


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: bytes) -> Iterator[list[str]]:
    """As in a process that has no native code, with one directory to keep it in; what is compiled is listed."""
    compiled: list[str] = []

    def compile_it(_machine: object, _features: str) -> bytes:
        compiled.append("compiled")
        return code[32:]

    monkeypatch.setattr(native_code, "_scanner", None)
    monkeypatch.setattr(native_code, "_worth", WORTH_LOADING)
    monkeypatch.setattr(native_code, "_directories", lambda: iter([tmp_path / "kept"]))
    monkeypatch.setattr(native_build, "object_code", compile_it)
    yield compiled


def again(monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether a further process gets native code from what the first one left."""
    monkeypatch.setattr(native_code, "_scanner", None)
    monkeypatch.setattr(native_code, "_worth", WORTH_LOADING)
    return scanner(WORTH_LOADING) is not None


# --- what it is worth ---


def test_nothing_is_loaded_for_little(fresh: list[str]) -> None:
    assert scanner(WORTH_LOADING - 1) is None


def test_nothing_is_compiled_for_what_only_loading_is_worth(fresh: list[str]) -> None:
    assert scanner(WORTH_LOADING) is None
    assert scanner(WORTH_COMPILING - 1) is None
    assert not fresh
    assert scanner(WORTH_COMPILING) is not None
    assert fresh == ["compiled"]


def test_what_is_there_is_used_for_any_number(fresh: list[str]) -> None:
    had = scanner(EVER_SO_MANY)
    assert had is not None
    assert scanner(0) is had


def test_the_next_process_does_not_compile(fresh: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert scanner(EVER_SO_MANY) is not None
    assert again(monkeypatch)
    assert fresh == ["compiled"]
    (kept,) = (tmp_path / "kept").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o644


def test_what_cannot_be_had_is_tried_once(fresh: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def fail(_machine: object, _features: str) -> bytes:
        tries.append(1)
        raise RuntimeError("no")

    monkeypatch.setattr(native_build, "object_code", fail)
    assert [scanner(EVER_SO_MANY) for _ in range(3)] == [None] * 3
    assert len(tries) == 1


@pytest.mark.parametrize("value", ["1", "yes"])
def test_numba_can_be_told_not_to_compile(fresh: list[str], monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", value)
    assert scanner(EVER_SO_MANY) is None
    assert not fresh


# --- where it is kept ---


def test_the_order_of_directories(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "numba"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    assert list(native_code._directories()) == [
        tmp_path / "numba",
        Path(native_code.__file__).parent / "__pycache__",
        tmp_path / "xdg" / "replica-audit",
        tmp_path / "tmp" / f"replica-audit-{os.geteuid()}",
    ]


def test_the_next_directory_where_the_first_cannot_be_written_to(fresh: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    places = [tmp_path / "file" / "below", tmp_path / "second", tmp_path / "third"]
    monkeypatch.setattr(native_code, "_directories", lambda: iter(places))
    assert scanner(EVER_SO_MANY) is not None
    assert again(monkeypatch)
    assert fresh == ["compiled"]
    assert len(list(places[1].iterdir())) == 1
    assert not places[2].exists()


def test_nowhere_to_keep_it(fresh: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setattr(native_code, "_directories", lambda: iter([tmp_path / "file" / "below"]))
    assert scanner(EVER_SO_MANY) is not None
    assert not again(monkeypatch)


def test_a_full_disk_leaves_nothing_behind(fresh: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(_self: Path, _target: object) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    assert scanner(EVER_SO_MANY) is not None
    assert list((tmp_path / "kept").iterdir()) == []


@pytest.mark.parametrize("size", [0, 10, 32, 5000, -1])
def test_a_file_that_is_not_whole_is_not_used(fresh: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, size: int) -> None:
    assert scanner(EVER_SO_MANY) is not None
    (kept,) = (tmp_path / "kept").iterdir()
    kept.write_bytes(kept.read_bytes()[:size])
    assert not again(monkeypatch)
    assert scanner(EVER_SO_MANY) is not None
    assert fresh == ["compiled"] * 2
    assert again(monkeypatch)


@pytest.mark.parametrize("mode", [0o666, 0o664])
def test_what_others_can_write_to_is_not_used(fresh: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: int) -> None:
    assert scanner(EVER_SO_MANY) is not None
    (kept,) = (tmp_path / "kept").iterdir()
    kept.chmod(mode)
    assert not again(monkeypatch)
    kept.chmod(0o644)
    (tmp_path / "kept").chmod(mode | 0o111)
    assert not again(monkeypatch)
    assert scanner(EVER_SO_MANY) is not None
    assert list((tmp_path / "kept").iterdir()) == [kept], "nothing is put where others write"


def test_a_link_in_place_of_the_directory_is_not_followed(fresh: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "kept").symlink_to(tmp_path / "elsewhere")
    assert scanner(EVER_SO_MANY) is not None
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("other", ["nobody"] if os.getuid() == 0 else [])  # only root can leave another user's files
def test_what_another_user_has_left_is_not_used(code: bytes, monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    assert other
    with open_to_all() as place:
        monkeypatch.setattr(native_code, "_directories", lambda: iter([place / "kept"]))
        place.chmod(0o777)
        as_nobody(lambda: native_code._keep("theirs.o", code[32:]))
        place.chmod(0o755)
        assert native_code._kept("theirs.o") is None
        shutil.rmtree(place / "kept")
        native_code._keep("ours.o", code[32:])
        assert native_code._kept("ours.o") == code[32:]


# --- installations ---


def run_in(package: Path, segment: Path, **variables: str) -> str:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(package), **variables}
    ran = subprocess.run(
        [sys.executable, "-c", SCAN, str(segment)], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    return ran.stdout.strip() + ran.stderr


def test_from_a_zip_file_as_workers_get_it(tmp_path: Path) -> None:
    """Compiled by the first process, linked without numba by the second."""
    zipped, segment = tmp_path / "package.zip", kf.segment(tmp_path, 0, kf.batch(0, 0), kf.batch(1, 1))
    with zipfile.ZipFile(zipped, "w") as package:
        for path in sorted((LIB / "replica_audit").rglob("*.py")):
            package.write(path, path.relative_to(LIB))
    variables = {"HOME": str(tmp_path / "nowhere"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert run_in(zipped, segment, **variables) == "2 True True"
    assert run_in(zipped, segment, **variables) == "2 True False"
    assert [path.suffix for path in (tmp_path / "cache/replica-audit").iterdir()] == [".o"]


def test_without_numba_python_does_it_all(tmp_path: Path) -> None:
    """As on a machine for which there is none."""
    segment, hidden = kf.segment(tmp_path, 0, kf.batch(0, 0), kf.batch(1, 1)), tmp_path / "hidden"
    for name in ("numba", "llvmlite"):
        (hidden / name).mkdir(parents=True)
        (hidden / name / "__init__.py").write_text("raise ImportError('none')")
    assert run_in(Path(f"{hidden}:{LIB}"), segment) == "2 False False"
