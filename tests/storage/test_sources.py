"""Finding clusters and brokers below what was given: each log directory goes to its broker, or is reported."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from replica_audit.errors import MetadataError, UsageError
from replica_audit.formats.log_dir.checkpoints import meta_properties
from replica_audit.formats.replicas.broker_files import replicas_of
from replica_audit.model import Problem, ReplicaFiles
from replica_audit.storage.inputs import first_look
from replica_audit.storage.inputs.first_look import look
from replica_audit.storage.inputs.folders import Tree, unusable
from replica_audit.storage.inputs.sources import Found, Root, discover, lacking
from tests.formats import kafka_files as kf
from tests.formats.rights import as_nobody, open_to_all

SAMPLE = Path(__file__).parents[1] / "data" / "sample"
OTHER_CLUSTER = "9cFv8v7VRd6AXPYlnwxoJg"


def find(*inputs: Path | str, metadata: Path | None = None) -> Found:
    """Discover, and check what holds for every tree: a log directory is one broker's, and its own meta.properties says no other."""
    found = discover([str(one) for one in inputs], metadata)
    owners = [(broker.path, broker.broker_id, root.cluster_id) for root in found.roots for broker in root.brokers]
    told = [problem.path for _cluster, problem in found.problems]
    assert len({path for path, _broker, _cluster in owners}) == len(owners)
    for given in inputs:
        if not Path(given).is_dir():
            continue
        for file in Path(given).absolute().rglob("meta.properties"):
            if not file.is_file():
                continue
            try:
                said = meta_properties(file.read_bytes())
            except (MetadataError, ValueError):  # tests of those look for themselves
                continue
            holding = [(broker, cluster) for path, broker, cluster in owners if file.is_relative_to(path)]
            reported = any(file.is_relative_to(path) for path in told)
            assert holding or reported, f"{file} is dropped in silence"
            assert len(holding) <= 1, f"{file} is read for two brokers"
            if holding and not reported:
                assert said.broker_id in (None, holding[0][0]), f"{file} is read for broker {holding[0][0]}"
                assert said.cluster_id in (None, holding[0][1]), f"{file} is read for cluster {holding[0][1]}"
    return found


def only(found: Found) -> Root:
    (root,) = found.roots
    return root


def brokers(root: Root) -> dict[str, int]:
    """Path, relative to the root, and id of each broker."""
    return {str(broker.path.relative_to(root.path)): broker.broker_id for broker in root.brokers}


def codes(found: Found) -> list[str]:
    return sorted(problem.code for _cluster, problem in found.problems)


def about(found: Found, path: Path) -> list[Problem]:
    return [problem for _cluster, problem in found.problems if problem.path == str(path) or problem.path.startswith(f"{path}/")]


def cluster(path: Path, *names: str, cluster_id: str | None = kf.CLUSTER_ID, first: int = 1, data: str = "data-0") -> Path:
    """A root: one folder per name, each with one log directory of brokers first, first + 1, ..."""
    for broker_id, name in enumerate(names or ("broker-1", "broker-2", "broker-3"), start=first):
        kf.log_dir(path / name / data, "orders-0", broker_id=broker_id, cluster_id=cluster_id)
    return path


def metadata(path: Path, cluster_id: str | None = kf.CLUSTER_ID) -> Path:
    path.write_text(json.dumps({"version": 1, "cluster_id": cluster_id, "kafka_version": "4.2.0"}))
    return path


def text(path: Path) -> None:
    """Text of kafka-dump-log, and nothing else that would tell whose it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"Dumping /data/orders-0/{0:020d}.log\nLog starting offset: 0\n")


# --- roots ---


def test_a_root(tmp_path: Path):
    root = only(find(cluster(tmp_path)))
    assert (root.path, root.cluster_id, root.head, root.metadata_path) == (tmp_path, kf.CLUSTER_ID, None, None)
    assert brokers(root) == {"broker-1": 1, "broker-2": 2, "broker-3": 3}
    assert {broker.cluster_id for broker in root.brokers} == {kf.CLUSTER_ID}


@pytest.mark.parametrize("names", [("broker-1", "broker-2"), ("broker=1", "broker=2"), ("1", "2"), ("broker_1", "broker2")])
def test_names_of_broker_folders(tmp_path: Path, names: tuple[str, str]):
    found = find(cluster(tmp_path, *names))
    assert (brokers(only(found)), found.problems) == ({names[0]: 1, names[1]: 2}, [])


@pytest.mark.parametrize("names", [("kafka-0", "kafka-1"), ("kafka-a.example", "kafka-b.example"), ("left", "right")])
@pytest.mark.parametrize("described", [True, False])
def test_folders_of_any_name_are_known_by_meta_properties(tmp_path: Path, names: tuple[str, str], described: bool):
    cluster(tmp_path, *names, first=100)
    if described:
        metadata(tmp_path / "cluster-metadata.json")
    found = find(tmp_path)
    assert (brokers(only(found)), found.problems) == ({names[0]: 100, names[1]: 101}, [])


def test_names_of_brokers_without_any_meta_properties(tmp_path: Path):
    for broker in (4, 7):
        text(tmp_path / f"broker-{broker}" / "dump.txt")
    root = only(find(tmp_path))
    assert (brokers(root), root.cluster_id) == ({"broker-4": 4, "broker-7": 7}, str(tmp_path))


def test_meta_properties_far_below_a_folder(tmp_path: Path):
    # what `tar` of a pod's volume gives
    cluster(tmp_path, "kafka-0", "kafka-1", data="var/lib/kafka/data/kafka-log0")
    assert brokers(only(find(tmp_path))) == {"kafka-0": 1, "kafka-1": 2}


def test_brokers_of_zookeeper_before_cluster_ids(tmp_path: Path):
    for broker in (0, 1):
        data = kf.log_dir(tmp_path / f"broker-{broker}" / "logs", "orders-0", broker_id=None)
        (data / "meta.properties").write_bytes(kf.meta_properties(broker, None, version=0))
    root = only(find(tmp_path))
    assert (brokers(root), root.cluster_id) == ({"broker-0": 0, "broker-1": 1}, str(tmp_path))


def test_the_sample_is_a_folder_of_roots():
    found = find(SAMPLE)
    assert found.problems == []
    assert {root.path.name for root in found.roots} == {path.name for path in SAMPLE.iterdir()}
    assert all(root.head is not None and root.head.cluster_id == root.cluster_id for root in found.roots)
    for path in SAMPLE.iterdir():
        assert brokers(only(find(path))) == {folder.name: int(folder.name[-1]) for folder in path.glob("broker-*")}


def test_a_folder_of_roots(tmp_path: Path):
    cluster(tmp_path / "prod")
    cluster(tmp_path / "test", "1", "2", cluster_id=OTHER_CLUSTER)
    found = find(tmp_path)
    assert {root.path.name: (root.cluster_id, len(root.brokers)) for root in found.roots} == {
        "prod": (kf.CLUSTER_ID, 3),
        "test": (OTHER_CLUSTER, 2),
    }
    assert found.problems == []


def test_several_inputs(tmp_path: Path):
    cluster(tmp_path / "prod")
    cluster(tmp_path / "test", cluster_id=OTHER_CLUSTER)
    assert [root.cluster_id for root in find(tmp_path / "prod", tmp_path / "test").roots] == [kf.CLUSTER_ID, OTHER_CLUSTER]


# --- one broker, one log directory ---


def test_one_brokers_folder(tmp_path: Path):
    cluster(tmp_path)
    root = only(find(tmp_path / "broker-2"))
    assert ({broker.broker_id for broker in root.brokers}, root.cluster_id) == ({2}, kf.CLUSTER_ID)


def test_one_brokers_folder_with_several_log_directories(tmp_path: Path):
    for disk in ("data-0", "data-1"):
        kf.log_dir(tmp_path / "broker-2" / disk, f"{disk}x-0", broker_id=2)
    found = find(tmp_path / "broker-2")
    assert ({broker.broker_id for broker in only(found).brokers}, found.problems) == ({2}, [])


def test_one_brokers_folder_where_a_log_directory_has_no_meta_properties(tmp_path: Path):
    folder = tmp_path / "broker-2"
    kf.log_dir(folder / "data-0", "orders-0", broker_id=2)
    kf.log_dir(folder / "data-1", "orders-1", broker_id=None)
    found = find(folder)
    read = [broker.path for broker in only(found).brokers if (folder / "data-1").is_relative_to(broker.path)]
    assert read or about(found, folder / "data-1"), "data-1 is dropped in silence"


def test_one_brokers_folder_without_meta_properties(tmp_path: Path):
    kf.log_dir(tmp_path / "broker-2" / "data-0", "orders-0", broker_id=None)
    assert [broker.broker_id for broker in only(find(tmp_path / "broker-2")).brokers] == [2]


@pytest.mark.parametrize("name", ["broker-2", "broker=2", "2"])
def test_one_brokers_folder_of_nothing_but_texts(tmp_path: Path, name: str):
    text(tmp_path / name / "orders-0.txt")
    assert [broker.broker_id for broker in only(find(tmp_path / name)).brokers] == [2]


def test_one_log_directory(tmp_path: Path):
    kf.log_dir(tmp_path / "kafka-logs", "orders-0", broker_id=5)
    root = only(find(tmp_path / "kafka-logs"))
    assert (brokers(root), root.cluster_id) == ({".": 5}, kf.CLUSTER_ID)


def test_one_log_directory_that_does_not_say_whose_it_is(tmp_path: Path):
    kf.log_dir(tmp_path / "kafka-logs", "orders-0", broker_id=None)
    found = find(tmp_path / "kafka-logs")
    assert (found.roots, codes(found)) == ([], ["unknown-broker"])


def test_a_log_directory_of_replicas_only(tmp_path: Path):
    kf.replica(tmp_path / "7", "orders-0")
    assert [broker.broker_id for broker in only(find(tmp_path / "7")).brokers] == [7]


def test_log_directories_of_several_brokers_side_by_side(tmp_path: Path):
    for broker in (1, 2, 3):
        kf.log_dir(tmp_path / f"kafka-logs-{broker}", "orders-0", broker_id=broker)
    assert brokers(only(find(tmp_path))) == {f"kafka-logs-{broker}": broker for broker in (1, 2, 3)}


@pytest.mark.parametrize("name", ["kafka-logs-1", "data-0", "logs"])
def test_a_topic_called_broker_is_no_broker(tmp_path: Path, name: str):
    """Its replica directories read `broker-0`, `broker-1`, ..."""
    for broker in (101, 102):
        kf.log_dir(tmp_path / f"host-{broker}" / name, "broker-0", "broker-1", broker_id=broker)
    assert brokers(only(find(tmp_path))) == {"host-101": 101, "host-102": 102}
    assert [broker.broker_id for broker in only(find(tmp_path / "host-101")).brokers] == [101]
    assert [broker.broker_id for broker in only(find(tmp_path / "host-101" / name)).brokers] == [101]


# --- names and meta.properties that contradict each other ---


def test_meta_properties_is_believed_over_the_folders_name(tmp_path: Path):
    cluster(tmp_path, "broker-1", "broker-2", first=11)
    found = find(tmp_path)
    assert brokers(only(found)) == {"broker-1": 11, "broker-2": 12}
    assert [(cluster_id, problem.code) for cluster_id, problem in found.problems] == [(kf.CLUSTER_ID, "broker-id-mismatch")] * 2
    assert "11" in found.problems[0][1].detail


def test_two_log_directories_of_one_folder_that_name_two_brokers(tmp_path: Path):
    """A disk copied into the wrong folder: its replicas must not pass for another broker's."""
    cluster(tmp_path)
    kf.log_dir(tmp_path / "broker-1" / "data-1", "orders-1", broker_id=2)
    assert find(tmp_path).problems


@pytest.mark.slow
def test_a_folder_whose_first_log_directory_does_not_know_its_broker(tmp_path: Path):
    (tmp_path / "host-a" / "data-0").mkdir(parents=True)
    (tmp_path / "host-a" / "data-0" / "meta.properties").write_text(f"version=0\ncluster.id={kf.CLUSTER_ID}\n")
    kf.log_dir(tmp_path / "host-a" / "data-1", "orders-0", broker_id=8)
    found = find(tmp_path)
    assert codes(found) == ["unknown-broker"] or set(brokers(only(found)).values()) == {8}


@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b"node.id=three\n", b"node.id=--3\n", b"node.id=" + b"9" * 5000, b"node.id=99999999999\n"]
)
def test_a_meta_properties_that_cannot_be_read_leaves_the_folders_name(tmp_path: Path, content: bytes):
    cluster(tmp_path)
    (tmp_path / "broker-2" / "data-0" / "meta.properties").write_bytes(content)
    assert brokers(only(find(tmp_path))) == {"broker-1": 1, "broker-2": 2, "broker-3": 3}


def test_a_meta_properties_that_is_no_file(tmp_path: Path):
    cluster(tmp_path)
    path = tmp_path / "broker-2" / "data-0" / "meta.properties"
    path.unlink()
    path.mkdir()
    assert brokers(only(find(tmp_path))) == {"broker-1": 1, "broker-2": 2, "broker-3": 3}


# --- clusters ---


def test_a_foreign_broker_in_a_root_is_left_out_and_reported(tmp_path: Path):
    cluster(tmp_path)
    kf.log_dir(tmp_path / "broker-4" / "data-0", "orders-0", broker_id=4, cluster_id=OTHER_CLUSTER)
    found = find(tmp_path)
    assert (brokers(only(found)), only(found).cluster_id) == ({"broker-1": 1, "broker-2": 2, "broker-3": 3}, kf.CLUSTER_ID)
    ((cluster_id, problem),) = found.problems
    assert (cluster_id, problem.code, problem.path) == (kf.CLUSTER_ID, "cluster-id-mismatch", str(tmp_path / "broker-4"))
    assert OTHER_CLUSTER in problem.detail


def test_two_roots_of_one_cluster_are_refused_by_name(tmp_path: Path):
    cluster(tmp_path / "monday")
    cluster(tmp_path / "tuesday")
    for inputs in ([tmp_path], [tmp_path / "monday", tmp_path / "tuesday"]):
        with pytest.raises(UsageError) as caught:
            find(*inputs)
        assert str(tmp_path / "monday") in str(caught.value)
        assert str(tmp_path / "tuesday") in str(caught.value)
        assert caught.value.exit_code == 2


@pytest.mark.parametrize("names", [("20261120", "20261121"), ("1", "2")])
def test_roots_named_by_numbers_are_no_brokers(tmp_path: Path, names: tuple[str, str]):
    """Nightly copies in folders named by date: taken for brokers, each would merge all its brokers into one."""
    cluster(tmp_path / names[0])
    cluster(tmp_path / names[1], cluster_id=OTHER_CLUSTER)
    assert {root.path.name: len(root.brokers) for root in find(tmp_path).roots} == dict.fromkeys(names, 3)


def test_the_same_input_given_twice(tmp_path: Path):
    cluster(tmp_path / "prod")
    try:
        found = find(tmp_path / "prod", f"{tmp_path}/prod/")
    except UsageError as error:
        assert str(tmp_path / "prod") in str(error)
    else:
        assert len(found.roots) == 1


def test_the_same_root_by_another_name(tmp_path: Path):
    cluster(tmp_path / "prod")
    (tmp_path / "link").symlink_to(tmp_path / "prod")
    with pytest.raises(UsageError, match="link"):
        discover([str(tmp_path / "prod"), str(tmp_path / "link")])


# --- what lies beside brokers' folders ---


def test_a_broker_folder_with_another_name_beside_others(tmp_path: Path):
    """One folder misnamed: a clean verdict over the others would speak of replicas that nobody looked at."""
    cluster(tmp_path, "broker-1", "broker-2", "kafka3")
    found = find(tmp_path)
    assert "kafka3" in brokers(only(found)) or about(found, tmp_path / "kafka3"), "dropped in silence"


@pytest.mark.parametrize("name", ["broker-3.bak", "broker-3 (copy)", "node3"])
def test_a_folder_with_replicas_and_no_id_beside_brokers(tmp_path: Path, name: str):
    cluster(tmp_path)
    kf.log_dir(tmp_path / name / "data-0", "orders-0", broker_id=None)
    assert about(find(tmp_path), tmp_path / name), "dropped in silence"


@pytest.mark.parametrize("name", ["broker-3.tar.gz", "broker-3.zip", "broker-3"])
def test_a_packed_broker_beside_others(tmp_path: Path, name: str):
    cluster(tmp_path, "broker-1", "broker-2")
    (tmp_path / name).write_bytes(b"\x1f\x8b\x08\x00")
    assert about(find(tmp_path), tmp_path / name), "dropped in silence"


def test_a_file_systems_own_folders_beside_brokers_are_nothing(tmp_path: Path):
    cluster(tmp_path)
    for name in ("lost+found", ".snapshot", "@eaDir", "__MACOSX"):
        (tmp_path / name).mkdir()
    assert len(only(find(tmp_path)).brokers) == 3


@pytest.mark.parametrize("name", ["meta.properties", "replication-offset-checkpoint"])
def test_a_stray_small_file_does_not_make_a_root_a_log_directory(tmp_path: Path, name: str):
    """Every replica of every broker would pass for one broker's."""
    cluster(tmp_path)
    shutil.copy(tmp_path / "broker-1" / "data-0" / name, tmp_path / name)
    assert brokers(only(discover([str(tmp_path)]))) == {"broker-1": 1, "broker-2": 2, "broker-3": 3}


def test_roots_whose_brokers_have_other_names(tmp_path: Path):
    """Two clusters, hosts' names for folders: a cluster is not one broker."""
    cluster(tmp_path / "prod", "kafka-a", "kafka-b", "kafka-c")
    cluster(tmp_path / "test", "kafka-d", "kafka-e", cluster_id=OTHER_CLUSTER)
    assert {root.path.name: len(root.brokers) for root in find(tmp_path).roots} == {"prod": 3, "test": 2}


def test_roots_some_of_which_have_other_names_for_brokers(tmp_path: Path):
    cluster(tmp_path / "prod", "kafka-a", "kafka-b", "kafka-c")
    cluster(tmp_path / "test", cluster_id=OTHER_CLUSTER)
    found = find(tmp_path)
    assert {root.path.name for root in found.roots} == {"prod", "test"} or about(found, tmp_path / "prod")


@pytest.mark.parametrize("names", [("broker-1", "broker-2"), ("kafka-a", "kafka-b")])
def test_a_root_two_folders_down_is_found_or_reported_never_merged(tmp_path: Path, names: tuple[str, str]):
    cluster(tmp_path / "2026-11-21" / "prod", *names)
    found = find(tmp_path)
    assert {broker.broker_id for root in found.roots for broker in root.brokers} == {1, 2} or (not found.roots and found.problems)


def test_disks_named_by_numbers(tmp_path: Path):
    """`/data/1`, `/data/2` are a broker's disks, not brokers: meta.properties says so."""
    for broker in (101, 102):
        for disk in ("1", "2"):
            kf.log_dir(tmp_path / f"host-{broker}" / disk, f"orders-{disk}", broker_id=broker)
    found = find(tmp_path)
    assert ({broker.broker_id for broker in only(found).brokers}, found.problems) == ({101, 102}, [])


# --- inputs that are nothing ---


def test_a_missing_path(tmp_path: Path):
    found = find(tmp_path / "nowhere")
    assert (found.roots, codes(found), found.problems[0][0]) == ([], ["no-such-path"], None)
    assert found.problems[0][1].path == str(tmp_path / "nowhere")


def test_a_missing_path_beside_a_good_one(tmp_path: Path):
    found = find(tmp_path / "nowhere", cluster(tmp_path / "prod"))
    assert (len(found.roots), codes(found)) == (1, ["no-such-path"])


def test_what_cannot_be_looked_into_is_known_without_looking_farther(tmp_path: Path):
    inputs = [str(tmp_path), str(tmp_path / "nowhere"), f"file://{tmp_path}/nothing", "s3a://bucket/folder"]
    assert [(problem.path, problem.code) for problem in unusable(inputs)] == [
        (str(tmp_path / "nowhere"), "no-such-path"),
        (str(tmp_path / "nothing"), "no-such-path"),
    ]
    with pytest.raises(UsageError, match="empty"):
        unusable([""])


@pytest.mark.parametrize(
    "make", [lambda path: path.symlink_to("nowhere"), lambda path: path.symlink_to(path.name)], ids=["dangling", "loop"]
)
def test_a_link_to_nothing(tmp_path: Path, make: Callable[[Path], None]):
    make(tmp_path / "link")
    assert codes(discover([str(tmp_path / "link")])) == ["no-such-path"]


def test_a_file_instead_of_a_directory(tmp_path: Path):
    (tmp_path / "brokers.tar").write_bytes(b"x")
    assert codes(find(tmp_path / "brokers.tar")) == ["not-a-directory"]


def test_an_empty_directory(tmp_path: Path):
    found = find(tmp_path)
    assert (found.roots, codes(found)) == ([], ["nothing-recognised"])
    assert "empty" in found.problems[0][1].detail


def test_a_folder_of_something_else(tmp_path: Path):
    (tmp_path / "photos" / "summer").mkdir(parents=True)
    (tmp_path / "photos" / "summer" / "cat.jpg").write_bytes(b"x")
    (tmp_path / "notes.txt").write_text("x")
    found = find(tmp_path)
    assert (found.roots, codes(found)) == ([], ["nothing-recognised"])


def test_a_path_that_is_too_long(tmp_path: Path):
    found = discover([f"{tmp_path}/{'x' * 5000}"])
    assert (found.roots, len(found.problems)) == ([], 1)


def test_an_empty_argument_is_not_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # --input "$UNSET"
    monkeypatch.chdir(cluster(tmp_path))
    with pytest.raises(UsageError):
        discover([""])


# --- ways to write a path ---


def test_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cluster(tmp_path / "prod")
    monkeypatch.chdir(tmp_path)
    for given in ("prod", "./prod", "prod/", "prod//", "./prod/."):
        assert only(discover([given])).path == tmp_path / "prod"
    monkeypatch.chdir(tmp_path / "prod")
    assert len(only(discover(["."])).brokers) == 3
    monkeypatch.chdir(tmp_path / "prod" / "broker-2")
    for given in (".", "..", "../broker-2"):
        assert 2 in {broker.broker_id for broker in only(discover([given])).brokers}


def test_a_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cluster(tmp_path / "prod")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert only(discover(["~/prod"])).path == tmp_path / "prod"


def test_the_home_directory_of_nobody_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    try:
        found = discover(["~no-such-user-here/prod"])
    except UsageError:
        return
    assert (found.roots, codes(found)) == ([], ["no-such-path"])


@pytest.mark.parametrize("name", ["prod", "with blanks", "per%cent", "\u65e5\u672c", "a+b", "a#b", "a?b"])
def test_a_file_uri(tmp_path: Path, name: str):
    cluster(tmp_path / name)
    assert only(discover([(tmp_path / name).as_uri()])).path == tmp_path / name


@pytest.mark.parametrize("form", ["file:{}", "file://{}", "file://localhost{}", "file:///{}"])
def test_forms_of_file_uris(tmp_path: Path, form: str):
    cluster(tmp_path)
    assert os.path.normpath(only(discover([form.format(tmp_path)])).path).lstrip("/") == str(tmp_path).lstrip("/")


@pytest.mark.parametrize("given", ["https://x/y", "ftp://x/y", "sftp://host/backup", "s4://bucket/prod"])
def test_other_stores_are_refused(tmp_path: Path, given: str):
    with pytest.raises(UsageError, match="only local directories") as caught:
        discover([str(cluster(tmp_path)), given])
    assert given in str(caught.value)


# --- cluster-metadata.json ---


def test_metadata_in_the_root(tmp_path: Path):
    cluster(tmp_path)
    path = metadata(tmp_path / "cluster-metadata.json")
    root = only(find(tmp_path))
    assert root.metadata_path == path
    assert root.head is not None
    assert root.head.kafka_version == "4.2.0"


@pytest.mark.parametrize("content", ["", "{", '{"version": 2}', '{"version": 1, "cluster_id": ' + "9" * 5000 + "}"])
def test_malformed_metadata_in_the_root_is_kept_for_its_report(tmp_path: Path, content: str):
    cluster(tmp_path)
    (tmp_path / "cluster-metadata.json").write_text(content)
    root = only(find(tmp_path))
    assert (root.head, root.metadata_path, root.cluster_id) == (None, tmp_path / "cluster-metadata.json", kf.CLUSTER_ID)


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: path.symlink_to("nowhere")], ids=["directory", "dangling link"])
def test_metadata_in_the_root_that_is_no_file_is_reported(tmp_path: Path, make: Callable[[Path], None]):
    """Without it leaders are inferred: a much weaker audit than the one that was asked for."""
    cluster(tmp_path)
    path = tmp_path / "cluster-metadata.json"
    make(path)
    found = find(tmp_path)
    assert only(found).metadata_path == path or about(found, path), "dropped in silence"


def test_metadata_in_the_root_of_another_cluster(tmp_path: Path):
    cluster(tmp_path)
    metadata(tmp_path / "cluster-metadata.json", OTHER_CLUSTER)
    assert "cluster-id-mismatch" in codes(find(tmp_path))


def test_metadata_given_apart_fits_by_its_id(tmp_path: Path):
    cluster(tmp_path / "copies" / "prod")
    cluster(tmp_path / "copies" / "test", cluster_id=OTHER_CLUSTER)
    path = metadata(tmp_path / "described.json", OTHER_CLUSTER)
    found = find(tmp_path / "copies", metadata=path)
    assert {root.cluster_id: root.metadata_path for root in found.roots} == {kf.CLUSTER_ID: None, OTHER_CLUSTER: path}


def test_metadata_given_apart_goes_before_that_in_the_root(tmp_path: Path):
    cluster(tmp_path / "prod")
    metadata(tmp_path / "prod" / "cluster-metadata.json")
    path = metadata(tmp_path / "newer.json")
    assert only(find(tmp_path / "prod", metadata=path)).metadata_path == path


def test_metadata_given_apart_that_fits_no_cluster(tmp_path: Path):
    cluster(tmp_path / "prod")
    path = metadata(tmp_path / "described.json", OTHER_CLUSTER)
    with pytest.raises(UsageError, match="not that of any input") as caught:
        find(tmp_path / "prod", metadata=path)
    assert str(path) in str(caught.value)


def test_metadata_given_apart_without_an_id_belongs_to_the_only_root(tmp_path: Path):
    cluster(tmp_path / "prod")
    path = metadata(tmp_path / "described.json", None)
    root = only(find(tmp_path / "prod", metadata=path))
    assert (root.metadata_path, root.cluster_id) == (path, kf.CLUSTER_ID)


def test_metadata_given_apart_without_an_id_fits_no_particular_one_of_two_roots(tmp_path: Path):
    cluster(tmp_path / "copies" / "prod")
    cluster(tmp_path / "copies" / "test", cluster_id=OTHER_CLUSTER)
    with pytest.raises(UsageError):
        find(tmp_path / "copies", metadata=metadata(tmp_path / "described.json", None))


def test_metadata_given_apart_for_a_root_that_does_not_know_its_cluster(tmp_path: Path):
    """Texts of kafka-dump-log carry no cluster id: the only root is the one that is meant."""
    for broker in (1, 2):
        text(tmp_path / "dumps" / f"broker-{broker}" / "orders.txt")
    path = metadata(tmp_path / "described.json")
    root = only(find(tmp_path / "dumps", metadata=path))
    assert (root.metadata_path, root.cluster_id) == (path, kf.CLUSTER_ID)


@pytest.mark.parametrize("content", ["", "{", '{"version": 2}', '{"version": 1, "brokers": 5}', '{"version": 1, "x": ' + "9" * 5000 + "}"])
def test_malformed_metadata_given_apart(tmp_path: Path, content: str):
    cluster(tmp_path / "prod")
    path = tmp_path / "described.json"
    path.write_text(content)
    with pytest.raises(UsageError) as caught:
        find(tmp_path / "prod", metadata=path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("told", "named"),
    [
        ('"brokers": [{"id": 1, "state": "dead"}]', "brokers[0].state"),
        ('"brokers": [{"id": 1}, {"id": 1}]', "brokers[1].id"),
        (
            '"topics": [{"topic": "t", "partitions": [{"partition": 0, "leader": 1}, {"partition": 0, "leader": 2}]}]',
            "partitions[1].partition",
        ),
        ('"topics": [{"topic": "t", "partitions": [{"partition": 0, "leader": "1"}]}]', "partitions[0].leader"),
    ],
)
def test_metadata_given_apart_is_refused_with_its_key(tmp_path: Path, told: str, named: str):
    cluster(tmp_path / "prod")
    path = tmp_path / "described.json"
    path.write_text(f'{{"version": 1, {told}}}')
    with pytest.raises(UsageError, match=re.escape(named)):
        find(tmp_path / "prod", metadata=path)


def test_missing_metadata_given_apart(tmp_path: Path):
    cluster(tmp_path / "prod")
    for path in (tmp_path / "nowhere.json", tmp_path):
        with pytest.raises(UsageError, match=str(path)):
            find(tmp_path / "prod", metadata=path)


# --- permissions and failing disks ---


@pytest.fixture
def readable() -> Iterator[Path]:
    """A root where another user may read it."""
    with open_to_all() as parent:
        yield cluster(parent / "prod")


def test_an_input_without_permission(readable: Path):
    readable.chmod(0)
    assert as_nobody(lambda: codes(discover([str(readable)]))) == ["cannot-read"]


def test_an_input_below_a_directory_without_permission(readable: Path):
    readable.chmod(0)
    assert as_nobody(lambda: codes(discover([str(readable / "broker-1")]))) == ["cannot-read"]


def test_a_broker_folder_without_permission_stays_in_the_root(readable: Path):
    (readable / "broker-2").chmod(0)
    assert as_nobody(lambda: brokers(only(discover([str(readable)])))) == {"broker-1": 1, "broker-2": 2, "broker-3": 3}


def test_metadata_without_permission_is_kept_for_its_report(readable: Path):
    path = metadata(readable / "cluster-metadata.json")
    path.chmod(0)
    assert as_nobody(lambda: only(discover([str(readable)])).metadata_path) == path


def test_one_entry_that_cannot_be_looked_at_does_not_hide_the_others(readable: Path):
    """A link into a directory that only root may enter: asking what it is fails."""
    closed = readable.parent / "closed"
    (closed / "inner").mkdir(parents=True)
    (readable / "zz").symlink_to(closed / "inner")
    closed.chmod(0)
    assert as_nobody(lambda: brokers(only(discover([str(readable)])))) == {"broker-1": 1, "broker-2": 2, "broker-3": 3}


def test_a_directory_that_fails_to_be_listed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An I/O error on a dying disk is not an empty directory."""
    cluster(tmp_path)
    listed = Path.iterdir

    def failing(path: Path) -> Iterator[Path]:
        if path == tmp_path:
            raise OSError(5, "Input/output error", str(path))
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", failing)
    found = discover([str(tmp_path)])
    assert (found.roots, codes(found)) == ([], ["cannot-read"])


def test_links_that_lead_back(tmp_path: Path):
    cluster(tmp_path)
    for name in ("broker-1", "broker-2/data-0", "."):
        (tmp_path / name / "up").symlink_to(tmp_path)
        (tmp_path / name / "self").symlink_to(".")
    found = discover([str(tmp_path)])
    assert brokers(only(found)) == {"broker-1": 1, "broker-2": 2, "broker-3": 3}


def test_links_that_lead_back_and_nothing_else(tmp_path: Path):
    for name in "abcdef":
        (tmp_path / name).symlink_to(".")
    assert codes(discover([str(tmp_path)])) == ["nothing-recognised"]


# --- brokers that the input lacks ---


def missing(found: Found) -> list[tuple[str, str, str]]:
    return [(one.path, one.detail, one.remedy) for _cluster, one in found.problems if one.code == "one-broker-of-several"]


@pytest.mark.parametrize(
    "names", [("broker-1", "broker-2", "broker-3"), ("1", "2", "3"), ("kafka-0", "kafka-1", "kafka-2"), ("host-a1", "host-a2")]
)
@pytest.mark.parametrize("below", ["", "data-0"])
def test_one_brokers_folder_of_several_names_the_others(tmp_path: Path, names: tuple[str, ...], below: str):
    cluster(tmp_path / "prod", *names)
    found = find(tmp_path / "prod" / names[1] / below)
    ((path, detail, remedy),) = missing(found)
    assert path == str(tmp_path / "prod" / names[1] / below).rstrip("/")
    assert f"the input has broker 2 of {', '.join(map(str, range(1, len(names) + 1)))}," in detail
    assert remedy == f"give the folder above: --input {tmp_path / 'prod'}"


def test_one_brokers_texts_of_several_name_the_others(tmp_path: Path):
    for broker in (1, 2):
        text(tmp_path / f"broker-{broker}" / "orders-0.txt")
    assert [detail.partition(",")[0] for _path, detail, _remedy in missing(find(tmp_path / "broker-1"))] == ["the input has broker 1 of 1"]


def test_what_lies_beside_and_is_no_broker_of_the_cluster_is_not_missed(tmp_path: Path):
    cluster(tmp_path, "broker-1")
    assert missing(find(tmp_path / "broker-1")) == [], "alone"
    (tmp_path / "broker-2").mkdir()
    assert missing(find(tmp_path / "broker-1")) == [], "empty"
    kf.log_dir(tmp_path / "broker-3" / "data-0", "orders-0", broker_id=3, cluster_id=OTHER_CLUSTER)
    assert missing(find(tmp_path / "broker-1")) == [], "of another cluster"
    shutil.copytree(tmp_path / "broker-1", tmp_path / "broker-9")
    assert missing(find(tmp_path / "broker-1")) == [], "the same broker, copied"
    kf.log_dir(tmp_path / "photos" / "data-0", "orders-0", broker_id=4)
    assert missing(find(tmp_path / "broker-1")) == [], "called otherwise"
    kf.log_dir(tmp_path / "broker-5" / "data-0", "orders-0", broker_id=5)
    assert len(missing(find(tmp_path / "broker-1"))) == 1


def test_disks_of_one_broker_are_no_brokers(tmp_path: Path):
    for disk in ("data-0", "data-1"):
        kf.log_dir(tmp_path / "broker-2" / disk, f"{disk}x-0", broker_id=2)
    assert find(tmp_path / "broker-2" / "data-0").problems == []


def test_a_whole_root_misses_nobody(tmp_path: Path):
    cluster(tmp_path / "prod-1")
    cluster(tmp_path / "prod-2")
    assert find(tmp_path / "prod-1").problems == []


def test_brokers_that_the_metadata_names():
    said = lacking(Path("/backup/cluster-metadata.json"), [1, 3], [1, 2, 3, 4])
    assert said is not None
    assert (said.code, said.path) == ("brokers-not-in-input", "/backup/cluster-metadata.json")
    assert "names brokers 2, 4, but the input has only 1, 3" in said.detail
    assert lacking(Path("/backup"), [1, 2, 9], [1, 2]) is None, "more than the metadata knows"
    assert lacking(Path("/backup"), [1, 2], []) is None, "nothing known"


# --- bare segments ---


@pytest.mark.parametrize("names", [("broker-1", "broker-2"), ("kafka-0", "kafka-1")])
@pytest.mark.parametrize("whole", [True, False])
def test_segments_right_in_brokers_folders_make_no_partitions(tmp_path: Path, names: tuple[str, str], whole: bool):
    """`scp 'broker1:/data/orders-0/*' broker-1/`: the root is no log directory with a topic `broker`."""
    for name in names:
        kf.segment(tmp_path / name, 0, kf.batch(0, 0))
        if whole and name.startswith("broker"):
            (tmp_path / name / "leader-epoch-checkpoint").write_bytes(kf.checkpoint([(0, 0)]))
    found = find(tmp_path)
    if names[0] == "kafka-0":
        assert (found.roots, set(codes(found))) == ([], {"nothing-recognised"})
        return
    assert brokers(only(found)) == {"broker-1": 1, "broker-2": 2}
    for broker in only(found).brokers:
        rows = list(replicas_of(broker.path))
        assert not [one for one in rows if isinstance(one, ReplicaFiles)]
        assert "segments-outside-a-replica" in {one.code for one in rows if isinstance(one, Problem)}


# --- a first look ---


def refused(*inputs: Path | str, metadata: Path | None = None, thorough: bool = False) -> str:
    with pytest.raises(UsageError) as caught:
        look([str(one) for one in inputs], metadata, thorough=thorough)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_inputs_of_no_use_are_refused_at_once_with_a_remedy_each(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    assert refused(tmp_path / "nowhere") == (
        f"there is nothing to audit\n  {tmp_path / 'nowhere'}: does not exist; check the path given to --input"
    )
    said = refused(tmp_path / "empty", tmp_path / "file", tmp_path / "photos", tmp_path / "nowhere").splitlines()
    assert [line.partition(":")[0].strip() for line in said[1:]] == [
        str(tmp_path / name) for name in ("empty", "file", "photos", "nowhere")
    ]
    many = [tmp_path / f"nowhere-{number}" for number in range(9)]
    assert refused(*many).splitlines()[-1] == "  and 4 more"


def test_one_remedy_for_one_problem(tmp_path: Path):
    kf.log_dir(tmp_path / "kafka-logs", "orders-0", broker_id=None)
    said = refused(tmp_path / "kafka-logs").splitlines()
    assert len(said) == 2
    assert "no meta.properties below it" in said[1]


def test_brokers_folders_without_a_file_are_of_no_use(tmp_path: Path):
    for broker in (1, 2):
        (tmp_path / f"broker-{broker}" / "data-0").mkdir(parents=True)
    assert "no file in it" in refused(tmp_path)
    text(tmp_path / "broker-2" / "orders-0.txt")
    look([str(tmp_path)])


def test_one_good_input_is_enough(tmp_path: Path):
    look([str(tmp_path / "nowhere"), str(cluster(tmp_path / "prod"))])
    look([str(SAMPLE)])


def test_twins_and_bad_metadata_are_refused_at_once(tmp_path: Path):
    cluster(tmp_path / "monday")
    cluster(tmp_path / "tuesday")
    assert "both hold cluster" in refused(tmp_path)
    bad = tmp_path / "bad.json"
    bad.write_text('{"version": 1,\n "cluster_id": }')
    assert "not JSON" in refused(tmp_path / "monday", metadata=bad)
    assert "not that of any input" in refused(tmp_path / "monday", metadata=metadata(tmp_path / "other.json", OTHER_CLUSTER))
    look([str(tmp_path / "monday")], metadata(tmp_path / "good.json"))


def test_a_large_input_is_left_to_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A first look lists so many folders and no more; what it has not seen, it does not judge."""
    monkeypatch.setattr(first_look, "_LOOKED_AT", 3)
    for number in range(9):
        (tmp_path / f"photos-{number}").mkdir()
    look([str(tmp_path)])
    assert "there is nothing to audit" in refused(tmp_path, thorough=True)


def test_a_store_is_asked_only_with_credentials_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    look(["s3a://backup/nightly", str(tmp_path / "nowhere")])
    assert "give s3a://BUCKET/FOLDER" in refused("s3a://")


def test_thousands_of_replicas_are_not_listed_to_find_the_brokers(tmp_path: Path):
    cluster(tmp_path)
    for broker in (1, 2, 3):
        for number in range(1000):
            (tmp_path / f"broker-{broker}" / "data-0" / f"orders-{number}").mkdir(exist_ok=True)
    tree = Tree([])
    assert [len(folders) for _root, folders in tree.roots(tmp_path)] == [3]
    assert len(tree.folders._listed) < 20
