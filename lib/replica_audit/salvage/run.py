"""One salvage, from a run's tables to the document. What is mapped over units, an engine maps (`engines`)."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from replica_audit.engine.replica_places import places_of
from replica_audit.errors import OutputError, UsageError
from replica_audit.formats.salvage.saved_file import READER_CONFIG
from replica_audit.model import NOT_OPENED
from replica_audit.model.salvage import ReplayOutcome, ReplayUnit, SalvageUnit, UnitOutcome
from replica_audit.past.cuts import RunCuts, clusters_with_cuts, cuts_of
from replica_audit.past.run import PastRun
from replica_audit.report import salvage_report
from replica_audit.report.facts.question import Question, find
from replica_audit.report.salvage_report import SavedCut, SavedRecords
from replica_audit.salvage.output import DOCUMENT, READER, REPLAY, SalvageOutput, file_name, refuse_input, writing
from replica_audit.salvage.units import units_of
from replica_audit.stages.salvage_replay import REPLAY_OUTCOME
from replica_audit.storage.inputs.first_look import refuse_useless
from replica_audit.storage.inputs.folders import location
from replica_audit.storage.inputs.sources import Root, discover
from replica_audit.words import count

Saves = Callable[[Sequence[SalvageUnit]], Iterable[UnitOutcome]]
Replays = Callable[[Sequence[ReplayUnit]], Iterable[ReplayOutcome]]
Tell = Callable[[str], None]
_OUTCOME = ".outcome.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SalvageRequest:
    """What to save, and where to. `inputs` are those of the audit, None for those that the run names.

    `cluster_id` None is the only one in which something is cut; `partitions` None are all. `asked_for` are reasons of `ON_REQUEST`.
    `gone`: brokers that never come back, as the plan was told: what their copies hold and the planned leader does not is saved.
    `protected`: folders that nothing may be written to besides the inputs, such as the warehouse. `is_audited_anew`: the run was made for
    this salvage, and would be made again to go on with it. `follow_links`: also out of the inputs, as the run may have done.
    """

    output: Path
    inputs: tuple[str, ...] | None = None
    cluster_id: str | None = None
    partitions: frozenset[tuple[str, int]] | None = None
    asked_for: tuple[str, ...] = ()
    metadata: Path | None = None
    gone: frozenset[int] = frozenset()
    protected: tuple[Path, ...] = ()
    is_audited_anew: bool = False
    follow_links: bool = False


def salvage(run: PastRun, request: SalvageRequest, save: Saves, replay: Replays, tell: Tell) -> SavedRecords:
    """Save the records that the cuts of a run remove.

    Args:
        run: a complete one.
        request: what, and where to.
        save: maps `salvaged` over units, in any order.
        replay: maps `replayed` over units, in any order.
        tell: takes a line of progress.

    Raises:
        UsageError: the inputs are not to be found, or the output holds something else.
        OutputError: the output cannot be written.
    """
    cluster_id, root, output = prepared(run, request)
    asked_for = tuple(sorted(set(request.asked_for)))
    found = cuts_of(run, cluster_id, request.partitions, gone=request.gone)
    size = sum(cut.size_bytes or 0 for cut in found.cuts)
    removed = sum(cut.record_count or 0 for cut in found.cuts)
    tell(f"run {run.run_id}: {count(len(found.cuts), 'cut')} of {count(removed, 'record')}, {size / 1e6:.1f} MB")
    places, problems = places_of(root.sources(), {(cut.topic, cut.partition) for cut in found.cuts})
    with output.begun():
        outcomes = _saved(output, list(units_of(found, places, output.records)), save, tell)
        replays = _replays(output, outcomes, asked_for, replay)
        saved = SavedRecords(
            run_id=run.run_id,
            cluster_id=cluster_id,
            folder=str(output.folder),
            cuts=tuple(_of_cut(found, outcomes)),
            partitions=tuple(
                replace(
                    one,
                    console=one.console and str(Path(one.console).relative_to(output.folder)),
                    encoded=one.encoded and str(Path(one.encoded).relative_to(output.folder)),
                )
                for one in sorted(replays, key=lambda one: (one.topic, one.partition))
            ),
            uncompared=found.uncompared,
            before=found.before,
            asked_for=asked_for,
            unread_folders=tuple(
                f"{problem.path}: {problem.detail}" for problem in problems if problem.kind == "directory" and problem.code in NOT_OPENED
            ),
            reader_config=f"{REPLAY}/{READER}",
        )
        output.write(f"{REPLAY}/{READER}", [f"{name}={value}\n" for name, value in READER_CONFIG.items()])
        output.write(DOCUMENT, [salvage_report.document(saved)])
        output.conclude(saved.as_json())
    return saved


def prepared(run: PastRun, request: SalvageRequest) -> tuple[str, Root, SalvageOutput]:
    """The cluster, where it is, and the output; nothing is made yet.

    Raises:
        UsageError: as `salvage`.
    """
    cluster_id = _cluster(run, request)
    for topic, partition in sorted(request.partitions or ()):  # a name that is mistyped has no cut, either
        find(run.tables, Question(topic=topic, partition=partition, run_id=run.run_id, cluster_id=cluster_id))
    root = _root(run, request, cluster_id)
    chosen = None if request.partitions is None else sorted(f"{topic}-{number}" for topic, number in request.partitions)
    run_id = "triage" if request.is_audited_anew else run.run_id
    identity: dict[str, object] = {"run_id": run_id, "cluster_id": cluster_id, "partitions": chosen}
    identity["replay_also"] = sorted(set(request.asked_for))
    identity["gone"] = sorted(request.gone) or None
    protected = [root.path, *(broker.path for broker in root.brokers), *map(location, _inputs(run, request)), *request.protected]
    return cluster_id, root, SalvageOutput(request.output.expanduser().absolute(), identity, protected)


def _saved(output: SalvageOutput, work: Sequence[SalvageUnit | UnitOutcome], save: Saves, tell: Tell) -> list[UnitOutcome]:
    """Save the units; returns what came of them, besides what was known before."""
    units = [one for one in work if isinstance(one, SalvageUnit)]
    tell(f"saving from {count(len(units), 'segment')} into {output.folder}")
    outcomes = [one for one in work if isinstance(one, UnitOutcome)] + list(save(units))
    for outcome in outcomes:
        if outcome.output is not None and not Path(outcome.output).exists():
            raise OutputError(
                f"{outcome.output} was written by another machine, and is not here; give an --output that all executors share"
            )
    return outcomes


def _of_cut(found: RunCuts, outcomes: Sequence[UnitOutcome]) -> Iterator[SavedCut]:
    by_replica: defaultdict[tuple[str, int, int], list[UnitOutcome]] = defaultdict(list)
    for outcome in outcomes:
        by_replica[outcome.topic, outcome.partition, outcome.broker_id].append(outcome)
    for cut in found.cuts:
        yield SavedCut.of(cut, by_replica[cut.topic, cut.partition, cut.broker_id])


def _replays(output: SalvageOutput, outcomes: Sequence[UnitOutcome], asked_for: tuple[str, ...], replay: Replays) -> list[ReplayOutcome]:
    """Make the replay files that are not there; none of a partition of which a file is not the audited one."""
    by_partition: defaultdict[tuple[str, int], list[UnitOutcome]] = defaultdict(list)
    for outcome in outcomes:
        by_partition[outcome.topic, outcome.partition].append(outcome)
    done: list[ReplayOutcome] = []
    units: list[ReplayUnit] = []
    for (topic, partition), made in sorted(by_partition.items()):
        if any(one.changed for one in made) or not any(one.record_count for one in made):
            continue
        unit = _replay_unit(output, topic, partition, made, asked_for)
        before = _replayed_before(output, unit)
        if before is not None:
            done.append(before)
        else:
            units.append(unit)
    for found in replay(units):
        output.write(f"{REPLAY}/.{file_name(found.topic, found.partition)}{_OUTCOME}", [REPLAY_OUTCOME.dump_json(found).decode()])
        done.append(found)
    return done


def _replay_unit(
    output: SalvageOutput, topic: str, partition: int, made: Collection[UnitOutcome], asked_for: tuple[str, ...]
) -> ReplayUnit:
    of_holder: defaultdict[int, list[str]] = defaultdict(list)
    for one in made:
        if one.output is not None:
            of_holder[one.broker_id].append(one.output)
    name = file_name(topic, partition)
    return ReplayUnit(
        topic=topic,
        partition=partition,
        saved=tuple(tuple(sorted(paths)) for _broker, paths in sorted(of_holder.items())),
        saved_records=sum(one.record_count for one in made),
        console=str(output.replay / f"{name}.console.txt"),
        encoded=str(output.replay / f"{name}.base64.jsonl"),
        asked_for=asked_for,
    )


def _replayed_before(output: SalvageOutput, unit: ReplayUnit) -> ReplayOutcome | None:
    """What was made of the same records before. What was made of fewer, or not to the end, or is damaged, is removed."""
    told = output.replay / f".{file_name(unit.topic, unit.partition)}{_OUTCOME}"
    with suppress(OSError, ValueError):
        found = REPLAY_OUTCOME.validate_json(told.read_bytes())
        # the folder may have been moved
        found = replace(found, console=found.console and unit.console, encoded=found.encoded and unit.encoded)
        files = ((found.console, found.console_sha256), (found.encoded, found.encoded_sha256))
        if found.saved_records == unit.saved_records and all(path is None or _sha256(Path(path)) == digest for path, digest in files):
            return found
    with writing(told):
        for path in (told, Path(unit.console), Path(unit.encoded)):
            path.unlink(missing_ok=True)
    return None


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _inputs(run: PastRun, request: SalvageRequest) -> tuple[str, ...]:
    return request.inputs if request.inputs is not None else run.runs[0].inputs or ()


def _cluster(run: PastRun, request: SalvageRequest) -> str:
    known, cluster_id = sorted({one.cluster_id for one in run.runs}), request.cluster_id
    if cluster_id is not None:
        if cluster_id not in known:
            raise UsageError(f"--cluster {cluster_id}: not in run {run.run_id}; it has {', '.join(known)}")
        return cluster_id
    if request.gone and len(known) > 1:
        raise UsageError(
            f"--gone {min(request.gone)}: of which cluster? run {run.run_id} has {len(known)}; give --cluster: {', '.join(known)}"
        )
    cut = clusters_with_cuts(run, request.partitions)
    if len(cut) > 1:
        raise UsageError(f"run {run.run_id} has cuts in {len(cut)} clusters; give one with --cluster: {', '.join(cut)}")
    return cut[0] if cut else known[0]


def _root(run: PastRun, request: SalvageRequest, cluster_id: str) -> Root:
    given = _inputs(run, request)
    if not given:
        raise UsageError(f"run {run.run_id} does not name its inputs; give them with --input")
    refuse_input(request.output, given)
    follow_links = request.follow_links or bool(run.settings.get("follow_links"))
    found = discover(given, request.metadata, follow_links=follow_links)
    refuse_useless(found)
    root = next((root for root in found.roots if root.cluster_id == cluster_id), None)
    if root is None and len(found.roots) == 1 and "/" in cluster_id:
        root = found.roots[0]  # the cluster of an input without ids is known by the path it had
    if root is None:
        there = ", ".join(root.cluster_id for root in found.roots)
        raise UsageError(f"cluster {cluster_id} of run {run.run_id} is not in the inputs, which hold {there}; give the inputs of the audit")
    return root
