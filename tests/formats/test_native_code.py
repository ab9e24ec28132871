"""When compiled code is loaded, and where numba cannot keep it: read-only installations, full disks, damaged files, no numba at all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from replica_audit.formats.native.native_code import WORTH_LOADING
from tests.formats import kafka_files as kf

LIB = Path(__file__).parents[2] / "lib"
SCAN = """
import sys
from pathlib import Path
from replica_audit.formats.native import native_code
from replica_audit.formats.replicas import segment_reader
found = native_code.scanner(int(sys.argv[2]))
again = native_code.scanner(0)
runs = segment_reader.scan_file(Path(sys.argv[1])).runs
stats = found.stats if found is not None else None
print(len(runs), found is not None, again is found, "numba" in sys.modules, sum(stats.cache_hits.values()) if stats else 0)
"""

pytestmark = pytest.mark.slow  # each compiles anew


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which a process before has left the compiled scan."""
    folder = tmp_path_factory.mktemp("kept")
    segment = kf.segment(folder, 0, kf.batch(0, 0), kf.batch(1, 1))
    assert run(segment, NUMBA_CACHE_DIR=str(folder / "numba")) == "2 True True True 0"
    return folder / "numba"


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    return kf.segment(tmp_path, 0, kf.batch(0, 0), kf.batch(1, 1))


def run(segment: Path, package: Path | str = LIB, batches: int = 1 << 60, **variables: str) -> str:
    """A process that scans a segment: runs; whether it has compiled code, and gives that again; has numba; how often its cache served."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    command = [sys.executable, "-c", SCAN, str(segment), str(batches)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=1200)
    return done.stdout.strip() + done.stderr


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


# --- what it is worth ---


def test_nothing_is_imported_for_little(segment: Path, kept: Path) -> None:
    assert run(segment, batches=WORTH_LOADING - 1, NUMBA_CACHE_DIR=str(kept)) == "2 False True False 0"


def test_some_megabytes_are_little() -> None:
    smallest = len(kf.batch(0, 0, value=b""))
    assert WORTH_LOADING * smallest > 32 << 20


def test_the_next_process_does_not_compile(segment: Path, kept: Path) -> None:
    before = [(path, path.stat().st_mtime_ns) for path in files(kept)]
    assert run(segment, batches=WORTH_LOADING, NUMBA_CACHE_DIR=str(kept)) == "2 True True True 1"
    assert [(path, path.stat().st_mtime_ns) for path in files(kept)] == before


@pytest.mark.parametrize("value", ["1", "yes"])
def test_numba_can_be_told_not_to_compile(segment: Path, kept: Path, value: str) -> None:
    assert run(segment, NUMBA_CACHE_DIR=str(kept), NUMBA_DISABLE_JIT=value) == "2 False True False 0"


@pytest.mark.nightly
def test_another_processor_is_compiled_for_without_its_instructions(segment: Path, tmp_path: Path) -> None:
    """To ask for an instruction that the processor named does not have would end the process."""
    assert run(segment, NUMBA_CACHE_DIR=str(tmp_path / "numba"), NUMBA_CPU_NAME="generic") == "2 True True True 0"


# --- installations ---


def changed_copy(folder: Path, module: str) -> Path:
    """The package with a line more in one module."""
    shutil.copytree(LIB / "replica_audit", folder / "replica_audit", ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "replica_audit" / module).open("a") as stream:
        stream.write("# changed\n")
    return folder


@pytest.mark.nightly
def test_code_of_other_sources_is_not_used(segment: Path, tmp_path: Path) -> None:
    """numba itself looks only at the file of the function, which is the same here."""
    package, cache = changed_copy(tmp_path / "package", "formats/native/kernels.py"), str(tmp_path / "numba")
    assert run(segment, package, NUMBA_CACHE_DIR=cache) == "2 True True True 0"
    assert run(segment, package, NUMBA_CACHE_DIR=cache) == "2 True True True 1"
    with (package / "replica_audit/protocol/epochs/epoch_table.py").open("a") as stream:
        stream.write("# changed\n")
    assert run(segment, package, NUMBA_CACHE_DIR=cache) == "2 True True True 0"


@pytest.fixture
def zipped(tmp_path: Path) -> Path:
    """The package as workers get it."""
    made = tmp_path / "package.zip"
    with zipfile.ZipFile(made, "w") as package:
        for path in sorted((LIB / "replica_audit").rglob("*.py")):
            package.write(path, path.relative_to(LIB))
    return made


def test_from_a_zip_file(tmp_path: Path, segment: Path, zipped: Path) -> None:
    for hits in (0, 1):
        found = run(segment, zipped, HOME=str(tmp_path / "nowhere"), XDG_CACHE_HOME=str(tmp_path / "cache"))
        assert found == f"2 True True True {hits}"


@pytest.mark.nightly
def test_nowhere_to_keep_it(segment: Path, zipped: Path) -> None:
    """Nothing can be made in a zip file, or below what is no directory."""
    for _ in range(2):
        assert run(segment, zipped, HOME="/dev/null", XDG_CACHE_HOME="/dev/null") == "2 True True True 0"


@pytest.mark.parametrize("size", [10, *(pytest.param(size, marks=pytest.mark.nightly) for size in (0, 2000))])
def test_files_that_are_not_whole(segment: Path, kept: Path, tmp_path: Path, size: int) -> None:
    for suffix in ("nbi", "nbc"):
        folder = tmp_path / suffix
        shutil.copytree(kept, folder)
        found = [path for path in files(folder) if path.suffix == f".{suffix}"]
        assert found
        for path in found:
            path.write_bytes(path.read_bytes()[:size])
        assert run(segment, NUMBA_CACHE_DIR=str(folder)).startswith("2 True True True")


def test_without_numba_python_does_it_all(segment: Path, tmp_path: Path) -> None:
    """As on a machine for which there is none."""
    hidden = tmp_path / "hidden"
    for name in ("numba", "llvmlite"):
        (hidden / name).mkdir(parents=True)
        (hidden / name / "__init__.py").write_text("raise ImportError('none')")
    assert run(segment, f"{hidden}:{LIB}") == "2 False True False 0"
