"""Any byte of any file flipped, inserted or cut, and any name: nothing crashes, hangs or grows; what stands before the damage counts.

Segments are read by native code and by Python in turn, in this process: code that reads where it should not would end it. The long run:

    HYPOTHESIS_PROFILE=exhaustive tests/run.sh tests/formats/test_fuzz.py
"""

from __future__ import annotations

import gzip
import resource
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from replica_audit.collect import CollectRequest, collect
from replica_audit.formats.collection.broker_folder import log_dir_of
from replica_audit.formats.coordinators.group_offsets import committed_offsets
from replica_audit.formats.log_dir import names as log_dir
from replica_audit.formats.metadata import metadata_log
from replica_audit.formats.native import native_code
from replica_audit.formats.replicas.broker_files import replicas_of
from replica_audit.formats.replicas.replica_reader import batches_from, scan_of
from replica_audit.formats.segment.segment_scan import scanned
from replica_audit.model import Problem, ReplicaFiles
from tests.formats import kafka_files as kf
from tests.formats.segment_readers import in_python, native_code_for_tests, natively
from tests.formats.test_dump_log import RECORD, START, line

SAMPLE = Path(__file__).parents[1] / "data" / "sample"
MORE_MEMORY = 1 << 30  # than the process has when it begins: what a length in a damaged file may not make it ask for
TEXT = START + b"".join(line(3 * i, 3 * i + 2, 100 * i) + RECORD * 3 for i in range(30))


def write_broker(folder: Path) -> Path:
    """One log directory of real segments, of texts in three forms, and a collection of the same."""
    data = folder / "broker-1" / "data-0"
    real = SAMPLE / "clean-in-sync" / "broker-1" / "data-0"
    for name in ("__cluster_metadata-0", "__consumer_offsets-0", "c-gzip-0", "txn-0", "small-segments-0"):
        shutil.copytree(real / name, data / name)
    for path in real.iterdir():
        if path.is_file():
            shutil.copy(path, data / path.name)
    kf.segment(data / "old-0", 0, kf.legacy(0, [0, 1]), kf.legacy(1, [2, 3], codec=kf.GZIP), kf.batch(4, 1))
    (data / "old-0" / log_dir.EPOCH_CHECKPOINT).write_bytes(kf.checkpoint([(1, 4)]))
    request = CollectRequest(output=folder / "out", log_dirs=(data,), broker_id=None, group_offsets_limit=0)
    collect(request, lambda _line: None)
    shutil.move(folder / "out" / "broker-1", folder / "broker-2")
    server_log = next((SAMPLE / "kafka-1.1.1-kip279-scenario-1-all").rglob("server.log"))
    shutil.copy(server_log, folder / "broker-1" / "server.log")
    (folder / "broker-1" / "dump.txt").write_bytes(TEXT)
    (folder / "broker-1" / "dump.gz").write_bytes(gzip.compress(TEXT.replace(b"orders-0", b"orders-1")))
    (folder / "broker-1" / "wide.txt").write_bytes(TEXT.replace(b"orders-0", b"orders-2").decode().encode("utf-16"))
    return folder


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two brokers' folders, and a bound on memory while they are read."""
    made = write_broker(tmp_path_factory.mktemp("fuzzed"))
    native_code_for_tests()
    read_all(made / "broker-1")
    read_all(made / "broker-2")
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MORE_MEMORY, hard))
    yield made
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def read_all(broker: Path) -> list[Problem]:
    """All that the audit's tasks read of a broker's folder."""
    problems: list[Problem] = []
    for item in replicas_of(broker):
        if isinstance(item, Problem):
            problems.append(item)
        elif isinstance(item, ReplicaFiles):
            problems += [*item.problems, *read_replica(item)]
    for problem in problems:
        assert problem.remedy
        assert problem.detail
    return problems


def read_replica(replica: ReplicaFiles) -> Iterator[Problem]:
    """Scans, batches, groups' offsets and metadata of one replica."""
    for file in replica.segments:
        if file.source == "raw" or file.source == "dump":
            yield from scanned(file, scan_of).problems
    if replica.scans:
        for rows in log_dir_of(Path(replica.scans)).scans({replica.directory}):
            rows.validate(full=True)
    if all(not scanned(file, scan_of).failed for file in replica.segments if file.source == "dump"):
        last = -1
        try:
            for batch in batches_from(replica.segments, 3):
                assert batch.last_offset >= batch.base_offset
                last = batch.last_offset
        except OSError as error:  # an index or a copy of a collection, which an audit's task makes a problem of
            assert error.filename
        assert last < 2**63
    if replica.topic == log_dir.GROUP_OFFSETS_TOPIC:
        yield from committed_offsets(replica.segments)[1]
    if replica.topic == log_dir.METADATA_TOPIC and replica.folder:
        metadata_log.read(Path(replica.folder))


EDITS = st.one_of(
    st.tuples(st.just("flip"), st.floats(0, 1), st.integers(1, 255)),
    st.tuples(st.just("insert"), st.floats(0, 1), st.binary(min_size=1, max_size=40)),
    st.tuples(st.just("remove"), st.floats(0, 1), st.integers(1, 200)),
    st.tuples(st.just("cut"), st.floats(0, 1)),
    st.tuples(st.just("number"), st.floats(0, 1), st.sampled_from([-1, 0, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63)])),
)


def edited(content: bytes, edit: tuple[object, ...]) -> tuple[bytes, int]:
    """The bytes after one edit, and up to where they are what they were."""
    match edit:
        case ("flip", float(place), int(mask)) if content:
            at = min(int(place * len(content)), len(content) - 1)
            return content[:at] + bytes([content[at] ^ mask]) + content[at + 1 :], at
        case ("insert", float(place), bytes(more)):
            at = int(place * len(content))
            return content[:at] + more + content[at:], at
        case ("remove", float(place), int(count)):
            at = int(place * len(content))
            return content[:at] + content[at + count :], at
        case ("cut", float(place)):
            at = int(place * len(content))
            return content[:at], at
        case ("number", float(place), int(value)):
            at = int(place * len(content))
            form = ">q" if not -(2**31) <= value < 2**31 else ">i"
            return content[:at] + struct.pack(form, value) + content[at + struct.calcsize(form) :], at
        case _:
            return content, len(content)


@contextmanager
def damaged(path: Path, edits: list[tuple[object, ...]]) -> Iterator[int]:
    """A file with some edits; up to which byte it is what it was."""
    whole = path.read_bytes()
    content, sound = whole, len(whole)
    for edit in edits:
        content, at = edited(content, edit)
        sound = min(sound, at)
    path.write_bytes(content)
    try:
        yield sound
    finally:
        path.write_bytes(whole)


def files_below(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


@pytest.mark.slow
@pytest.mark.parametrize("is_native", [True, False])
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(number=st.integers(0, 10_000), edits=st.lists(EDITS, min_size=1, max_size=3))
def test_any_file(root: Path, is_native: bool, number: int, edits: list[tuple[object, ...]]) -> None:
    files = files_below(root)
    path = files[number % len(files)]
    scanner = native_code.scanner(1 << 60) if is_native else None
    with (
        mock.patch.object(native_code, "scanner", lambda _batches: scanner),
        damaged(path, edits),
    ):
        read_all(root / path.relative_to(root).parts[0])


NAMES = st.one_of(
    st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=40).filter(
        lambda name: name not in (".", "..") and len(name.encode()) < 250
    ),
    st.builds(
        "{}{}{}".format,
        st.sampled_from(
            [
                "",
                "0" * 20,
                "9" * 20,
                "00000000000000000015",
                "-0000000000000000001",
                "\N{ARABIC-INDIC DIGIT ZERO}" * 20,
                "orders-",
                "meta",
                "x" * 200,
            ]
        ),
        st.sampled_from(["", ".log", ".index", ".log.swap", ".log.cleaned", ".log.deleted", "-0", "-2147483648", "-99999999999999"]),
        st.sampled_from(["", ".", " ", "-delete", ".f00d-future", ".f00d-stray", ".gz", ".tmp", ".parquet"]),
    ).filter(bool),
)


@given(NAMES)
@example("9" * 20 + ".log")
@example("a-" + "9" * 30)
def test_any_name_is_parsed(name: str) -> None:
    replica, segment = log_dir.replica_directory(name), log_dir.segment_name(name)
    assert replica is None or 0 <= replica.partition < 2**31
    assert segment is None or 0 <= segment.base_offset < 2**63
    log_dir.is_known(name)
    log_dir.is_server_log(name)
    log_dir.is_broker_folder(name)
    log_dir.is_cleaned(name)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(number=st.integers(0, 10_000), name=NAMES)
def test_any_name_of_a_file_or_folder(root: Path, number: int, name: str) -> None:
    paths = [path for path in sorted(root.rglob("*")) if path.parent != root]
    path = paths[number % len(paths)]
    other = path.parent / name
    if name in (".", "..") or other.exists():
        return
    path.rename(other)
    try:
        read_all(root / path.relative_to(root).parts[0])
    finally:
        other.rename(path)


def _raw() -> dict[str, bytes]:
    records = [kf.batch(i, i // 5, value=b"v" * (i % 40)) for i in range(20)]
    return {
        "v2": b"".join(records),
        "mixed": kf.legacy(0, [0, 1, 2]) + kf.legacy(1, [3, 4], codec=kf.GZIP) + b"".join(kf.batch(i, 1) for i in range(5, 12)),
        "control": kf.batch(0, 0, transactional=True, producer=(7, 1, 0)) + kf.control_batch(1, 0) + kf.empty_batch(2, 0, last_delta=9),
    }


RAW = _raw()


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(sorted(RAW)), edits=st.lists(EDITS, min_size=1, max_size=3))
def test_what_stands_before_the_damage_counts(tmp_path: Path, name: str, edits: list[tuple[object, ...]]) -> None:
    """And the damage is where it begins, or further on, where it shows: never before."""
    path = kf.segment(tmp_path, 0, RAW[name])
    ends = _ends(RAW[name])
    with damaged(path, edits) as sound:
        for read in (natively, in_python):
            found = read(path)
            whole = sum(1 for end in ends if end <= sound)
            assert sum(run.batch_count for run in found.runs) >= whole
            first_torn = ends[whole - 1] if whole else 0
            assert found.damage is None or found.damage.byte_offset is None or found.damage.byte_offset >= first_torn
            assert found.first_bad_crc is None or found.first_bad_crc >= first_torn
            if path.read_bytes() != RAW[name] and found.damage is None and found.first_bad_crc is None:
                assert not _is_covered(path.read_bytes(), RAW[name]), "bytes that a CRC covers have changed, and nobody says so"


def _ends(content: bytes) -> list[int]:
    ends, at = [], 0
    while at < len(content):
        at += 12 + int.from_bytes(content[at + 8 : at + 12], "big")
        ends.append(at)
    return ends


def _is_covered(now: bytes, before: bytes) -> bool:
    """Whether files of one size differ in a byte behind the stored CRC of a batch."""
    if len(now) != len(before):
        return False
    begin = 0
    for end in _ends(before):
        covered = begin + (21 if before[begin + 16] == 2 else 16)
        if now[covered:end] != before[covered:end]:
            return True
        begin = end
    return False


def test_lengths_that_claim_everything(tmp_path: Path) -> None:
    """Two GiB claimed by a batch, a record, a key: nothing of that size is ever asked for."""
    root = write_broker(tmp_path)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MORE_MEMORY // 2, hard))
    try:
        for path in files_below(root / "broker-1"):
            if path.suffix == ".log":
                for at in range(0, min(path.stat().st_size, 120), 7):
                    with damaged(path, [("number", at / path.stat().st_size, 2**31 - 1)]):
                        read_all(root / "broker-1")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
