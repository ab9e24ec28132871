"""What is proven healthy at once, of everything that passes: the judge of pairs says the same, row by row, and finds nothing."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from replica_audit.config import Settings
from replica_audit.local_run import triage
from replica_audit.notebook.frames import known_table
from replica_audit.partition import healthy as proof
from replica_audit.partition.healthy import proven_healthy
from replica_audit.past.unstored_rows import UNSTORED, WithUnstored, whole
from replica_audit.report.facts.explanation import explain
from replica_audit.report.facts.question import Question
from replica_audit.rows import AUDIT_RUNS, TABLES
from replica_audit.rows.arrow import schema_of
from replica_audit.stages import judged as judging
from tests.house.checkout import ROOT
from tests.mutation.generated import STATES, healthy
from tests.mutation.shapes import COLLECTED, RAW, TEXT
from tests.mutation.silent import Place, Tally, round_of
from tests.partition.disturbed import Known, history, with_snapshots
from tests.partition.held_against_judge import Held, every_partition, generated, hold_disturbed, made_up, partitions_of

SAMPLE = ROOT / "tests" / "data" / "sample"
SHARED = ROOT.parent / "shared" / "clusters"
OF_CONDITIONS = ("OF_PARTITION", "OF_ALL", "OF_REPLICA", "OF_SEGMENTS")
CONDITIONS = [(table, condition) for table in OF_CONDITIONS for condition in getattr(proof, table)]
# what the judge can do without: rows are made by the same rules whatever holds
STRICTER = {
    "_has_claims_that_agree": "the newest claim is believed, and the others are only told in replica_roles",
    "_is_local": "of logs that are the same nothing is fetched from remote storage",
    "_are_positions_in_the_log": "what a group finds is looked at once more, when its row is made",
}


@pytest.fixture(scope="module")
def passing(tmp_path_factory: pytest.TempPathFactory) -> list[Known]:
    found = generated(tmp_path_factory.mktemp("generated")) + partitions_of(SAMPLE / "clean-in-sync")
    return [one for one in found if proven_healthy(*one) is not None]


@pytest.mark.parametrize("cluster", sorted(path.name for path in SAMPLE.iterdir()))
def test_real_clusters_are_judged_the_same(cluster: str):
    held = Held()
    with every_partition(held):
        triage([str(SAMPLE / cluster)], Settings(), tell=lambda _event: None, run_id="held")
    assert held.looked_at > 0
    assert held.otherwise == []


@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/clusters is not beside the project")
def test_all_recorded_clusters_are_judged_the_same():
    held = Held()
    roots = sorted(
        {path.parent.parent for path in SHARED.glob("**/broker-*/meta.properties")}
        | {path.parents[2] for path in SHARED.glob("**/broker-*/*/meta.properties")}
    )
    with every_partition(held):
        for root in roots:
            triage([str(root)], Settings(), tell=lambda _event: None, run_id="held")
    assert held.passed > 100
    assert held.otherwise == []


def test_other_histories_are_judged_the_same(passing: list[Known]):
    """Also with segments that begin elsewhere on each broker, and a leader that has written nothing in its epoch yet."""
    held = Held()
    for seed in range(300):
        rng = random.Random(seed)  # noqa: S311
        known, cluster = rng.choice(passing)
        with made_up():
            held.hold(history(rng, known), cluster, f"seed {seed}")
    assert held.otherwise == []
    assert held.passed > 150


def test_followers_that_lag_are_judged_the_same(passing: list[Known]):
    """In and out of the ISR, and some with another batch than their leader: that is told only by reading it again."""
    held = _of_lagging(passing, range(500))
    assert held.otherwise == []
    assert held.lagging > 50


def _of_lagging(passing: list[Known], seeds: Iterable[int]) -> Held:
    held = Held()
    for seed in seeds:
        rng = random.Random(seed)  # noqa: S311
        known, cluster = rng.choice(passing)
        with made_up():
            held.hold(history(rng, known, lag=1), cluster, f"seed {seed}")
    return held


def test_batches_that_are_not_read_again_are_noticed(passing: list[Known], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(proof, "holds_the_beginning", lambda *_of: True)
    assert _of_lagging(passing, range(1000)).otherwise


def _with_snapshots(passing: list[Known], last_sequence: int) -> Held:
    """Partitions with a producer snapshot beside each log, which says 0 of the last sequence, and this one by the batches."""
    held = Held()
    for known, cluster in passing:
        if known.segments and known.replicas:
            held.hold(with_snapshots(known, last_sequence), cluster, known.topic)
    return held


def test_partitions_with_producer_snapshots_are_judged_the_same(passing: list[Known]):
    with made_up():
        agreeing, other = _with_snapshots(passing, 0), _with_snapshots(passing, 1)
    assert (agreeing.otherwise, other.otherwise) == ([], [])
    assert agreeing.passed > other.passed


def test_snapshots_that_are_not_read_are_noticed(passing: list[Known], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(judging, "problems_of_producers", lambda *_of: ())
    with made_up():
        assert _with_snapshots(passing, 1).otherwise


def test_disturbed_partitions_are_judged_the_same(passing: list[Known]):
    """A hundred thousand by hand: see `held_against_judge`."""
    held = hold_disturbed(passing, 4000, seed=0)
    assert held.otherwise == []
    assert 400 < held.passed < 3000


@pytest.mark.parametrize("shape", [RAW, TEXT, COLLECTED])
@pytest.mark.parametrize("state", STATES)
def test_damaged_files_are_judged_the_same(tmp_path: Path, state: str, shape: str):
    held, tally = Held(), Tally()
    with every_partition(held):
        place = Place(healthy(tmp_path / state, state), tmp_path / "place", shape)
        for seed in range(5):
            round_of(place, seed, tally)
    assert held.otherwise == []
    assert held.passed > 0 or shape == TEXT
    assert held.looked_at > held.passed


@pytest.mark.parametrize(("table", "condition"), CONDITIONS, ids=[condition.__name__ for _table, condition in CONDITIONS])
def test_a_condition_that_is_left_out_is_noticed(passing: list[Known], monkeypatch: pytest.MonkeyPatch, table: str, condition: object):
    """The judge then says otherwise of something that passes, or its rows cannot be made."""
    monkeypatch.setattr(proof, table, tuple(one for one in getattr(proof, table) if one is not condition))
    name = str(getattr(condition, "__name__", ""))
    is_noticed = any(_is_noticed(passing, seed) for seed in range(0, 400 if name in STRICTER else 6000, 100))
    assert is_noticed == (name not in STRICTER)


def _is_noticed(passing: list[Known], seed: int) -> bool:
    try:
        return bool(hold_disturbed(passing, 100, seed).otherwise)
    except (KeyError, ValueError, AssertionError):
        return True


@pytest.mark.parametrize("state", STATES)
def test_every_partition_of_a_healthy_cluster_passes(tmp_path: Path, state: str):
    """Compacted ones, too, as long as every record is there."""
    found = partitions_of(healthy(tmp_path / state, state))
    assert [known.topic for known, cluster in found if proven_healthy(known, cluster) is None] == []


def test_most_of_a_real_cluster_passes():
    """All but a log that the cleaner went through, and what brokers' own logs speak of."""
    found = partitions_of(SAMPLE / "clean-in-sync")
    assert sum(proven_healthy(known, cluster) is not None for known, cluster in found) >= len(found) - 5


def _proven(root: Path, **settings: Any) -> tuple[int, int]:
    """How many followers the run says were proven healthy, and how many have a verdict."""
    done = triage([str(root)], Settings(**settings), tell=lambda _event: None, run_id="held")
    (run,) = done.tables.columns("audit_runs", schema_of(AUDIT_RUNS)).to_pylist()
    return run["proven_healthy"], sum(dict(run["verdict_counts"]).values())


@pytest.mark.parametrize("state", STATES)
def test_a_run_counts_what_was_proven(tmp_path: Path, state: str):
    root = healthy(tmp_path / state, state)
    proven, judged = _proven(root)
    assert judged > 0
    assert proven >= 0.99 * judged
    assert _proven(root, what_if_leaders=True) == (0, judged), "then every pair is compared"


def test_what_is_compared_is_not_counted_as_proven():
    """A cleaner went through some of its logs."""
    proven, judged = _proven(SAMPLE / "clean-in-sync")
    assert 0 < proven < judged


def _frames(root: Path, detail: str) -> dict[str, list[str]]:
    """Every table as a notebook has it, by its name."""
    done = triage([str(root)], Settings(detail=detail), tell=lambda _event: None, run_id="held")  # type: ignore[arg-type]
    tables = {one.name: whole(done.tables, one, run_id="held") for one in TABLES}
    return {name: sorted(map(repr, rows.to_pylist())) for name, rows in tables.items() if name != "audit_runs"}


@pytest.mark.parametrize("root", [SAMPLE / "clean-in-sync", SAMPLE / "committed-loss", SAMPLE / "kafka-1.1.1-kip279-scenario-1-all"])
def test_rows_that_are_not_stored_are_made_again(root: Path):
    """A notebook has the same of both, and so has an explanation."""
    assert _frames(root, "findings") == _frames(root, "all")


def test_an_explanation_has_the_rows_that_are_not_stored(tmp_path: Path):
    root = healthy(tmp_path / "paused", "paused")
    stored, explained = {}, {}
    for detail in ("findings", "all"):
        done = triage([str(root)], Settings(detail=detail), tell=lambda _event: None, run_id="held")
        stored[detail] = {name: len(done.tables.columns(name, schema_of(known_table(name)))) for name in UNSTORED}
        asked = [Question(topic=topic, partition=0, run_id="held", cluster_id=None) for topic in ("orders", "keys")]
        explained[detail] = [explain(WithUnstored(done.tables), one).followers for one in asked]
    assert set(stored["findings"].values()) == {0}
    assert all(stored["all"].values())
    assert [len(one.points) for found in explained["findings"] for one in found] == [4] * 4
    assert [[one.points for one in found] for found in explained["findings"]] == [
        [one.points for one in found] for found in explained["all"]
    ]
