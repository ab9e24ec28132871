"""The tables of a past run → the report that people read, without Spark.

An audit shows it of the run that it has just completed, `report` of any run. Columns are read as Arrow; Python objects are made only of
what is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import PurePath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from replica_audit.errors import UsageError
from replica_audit.model.replicas import NOT_READ_WHOLE
from replica_audit.past.doubts import doubts_of, never_checked, oldest_capture, oldest_check
from replica_audit.past.findings import OPEN, findings, found, fully_known, groups, kept_runs, known_verdicts, without_known
from replica_audit.past.recovery import due_facts, recovery_facts
from replica_audit.past.run import PastRun, counted, in_order
from replica_audit.past.starts import starts_of
from replica_audit.protocol.cluster.leadership import INFERRED
from replica_audit.protocol.cluster.metadata_image import ElectionKind
from replica_audit.protocol.verdict.acknowledgement import FOUND_NOW, Status
from replica_audit.protocol.verdict.partition_findings import FindingAbout, PartitionCode
from replica_audit.protocol.verdict.verdict import Verdict
from replica_audit.recovery.facts import RecoveryFacts
from replica_audit.report.facts.assessment import CODES_BY_LOSS, SHOWN_PROBLEMS, VERDICTS_BY_LOSS, by_verdict, labels
from replica_audit.report.facts.due_facts import due_of
from replica_audit.report.facts.run_report import (
    Choice,
    Cluster,
    Finding,
    Impact,
    PartitionPlace,
    ProblemKind,
    Report,
    ReportedDecision,
    findings_about_followers,
)
from replica_audit.report.page.page_data import Losses, PageData
from replica_audit.report.sections.decisions import decisions
from replica_audit.rows import (
    CONSUMER_IMPACTS,
    FINDINGS,
    INPUT_ERRORS,
    LEADER_EPOCHS,
    REPLICA_LOGS,
    REPLICA_VERDICTS,
    TRUNCATION_POINTS,
    WHAT_IF_LEADERS,
)
from replica_audit.rows.arrow import nullable_columns, severity_ranks
from replica_audit.rows.codes import Severity
from replica_audit.rows.columns import hints_of
from replica_audit.rows.findings import RunFinding
from replica_audit.rows.history import ConsumerImpact
from replica_audit.rows.pairs import ReplicaVerdict
from replica_audit.rows.runs import NO_CLUSTER, AuditRun, ReportedProblem
from replica_audit.rows.what_if import WhatIfLeader

PARTITION = ["cluster_id", "topic", "partition"]
_PAIR = [*PARTITION, "leader_id", "follower_id"]
FINDING_KEYS = ["cluster_id", "finding_key"]
_OUTCOMES = ("fetcher_fails", "still_diverged")
_PLACES, _NEWEST, _GROUPS = 3, 5, 50  # shown of a decision, of what is new, and of acknowledgements
_UNREAD = (ds.field("severity") == str(Severity.NONE)) & ds.field("records_unread").is_valid()
_OFFLINE = str(PartitionCode.OFFLINE_PARTITION)


def report_of(run: PastRun, top: int | None = None, *, gone: Collection[int] = (), cluster_id: str | None = None) -> Report:
    """What the audit itself said, with the worst `top` of everything (None: as many as the audit's own).

    With brokers that are `gone`, of the only cluster or of this one, its decisions are those of a plan without them.

    Raises:
        UsageError: a table cannot be read, or tells of a verdict that a later version has; a broker is not gone by the run.
    """
    settings, worst = run.settings, run.settings.get("worst", 20) if top is None else top
    clusters = tuple(_clusters(run))
    of_status = counted(findings(run, ["status", "severity"], list(Status)), ["status", "severity"])
    statuses = {status: sum(of_status[key] for key in of_status if key[0] == status) for status in sorted({key[0] for key in of_status})}
    is_compared = any(status != Status.NEW for (status,) in run.counts(FINDINGS, ["status"]))
    covered = len(findings(run, ["status"], OPEN, acknowledged=True))
    known_of = known_verdicts(run)
    problems = run.read(INPUT_ERRORS, list(hints_of(ReportedProblem)))
    not_confirmed = _worst_of(run, Status.UNCONFIRMED)
    candidates, best_led = _candidates(run, worst)
    first = problems.take(in_order(_null_first(problems), [(name, "ascending") for name in ("path", "line", "byte_offset")]))
    latest = max((row.finished_at for row in run.runs if row.finished_at is not None), default=run.runs[0].started_at)
    return Report(
        run_id=run.run_id,
        warehouse=run.tables.location,
        inputs=run.runs[0].inputs or (),
        exit_code=run.runs[0].exit_code or 0,
        fail_on=settings.get("fail_on", str(Severity.ERROR)),
        seconds=round((latest - run.runs[0].started_at).total_seconds(), 1),
        clusters=clusters,
        findings=tuple(_findings(run, worst)),
        finding_count=sum(statuses.get(status, 0) for status in FOUND_NOW)
        or findings_about_followers(clusters) - sum(known_of.values()),  # where the table of findings is not there
        impacts=tuple(_impacts(run, worst)),
        candidates=tuple(candidates),
        best_led_partitions=best_led,
        already_lost_partitions=_already_lost(run),
        problems=run.tables.typed(INPUT_ERRORS.name, first.slice(0, SHOWN_PROBLEMS), ReportedProblem),
        problem_count=len(problems),
        changes=statuses,
        offline=_offline(run, worst),
        others=_others(run, worst),
        partition_codes=_partition_codes(run),
        decisions=tuple(_decisions(run, clusters, recovery_facts(run, cluster_id=cluster_id, gone=gone) if gone else ())),
        new_findings={severity: count for (status, severity), count in of_status.items() if status == Status.NEW},
        newest=_worst_of(run, Status.NEW) if is_compared else (),
        not_confirmed=not_confirmed,
        kept_runs=kept_runs(run, not_confirmed),
        is_compared=is_compared,
        acknowledged_count=covered,
        acknowledgements=groups(run, _GROUPS),
        acknowledged_verdicts=known_of,
        doubts=doubts_of(run.tables, run.run_id),
        broker_starts=starts_of(run),
        problem_kinds=tuple(_problem_kinds(run, first)),
    )


def _problem_kinds(run: PastRun, problems: pa.Table) -> Iterator[ProblemKind]:
    """The problems by code and kind of file; what leaves something unread first, then in the order of their places."""
    kinds = problems.select(["code", "kind"]).group_by(["code", "kind"], use_threads=False).aggregate([]).to_pylist()  # as they come first
    for kind in sorted(kinds, key=lambda one: one["code"] not in NOT_READ_WHOLE):
        own = problems.filter((pc.field("code") == kind["code"]) & (pc.field("kind") == kind["kind"]))
        (first,) = run.tables.typed(INPUT_ERRORS.name, own.slice(0, 1), ReportedProblem)
        yield ProblemKind(first=first, number=len(own), next_paths=tuple(map(str, own["path"].slice(1, _PLACES).to_pylist())))


def _worst_of(run: PastRun, status: Status) -> tuple[RunFinding, ...]:
    """The worst findings of a status."""
    some = findings(run, [*FINDING_KEYS, "severity", "code", *PARTITION, "broker_id"], [status])
    ranked = some.append_column("severity_rank", severity_ranks(some["severity"]))
    ranked = ranked.append_column("code_rank", _rank(some["code"], CODES_BY_LOSS))
    order = [(name, "ascending") for name in ("severity_rank", "code_rank", *PARTITION, "broker_id")]
    return whole_findings(run, some.take(in_order(ranked, order)[:_NEWEST]))


def whole_findings(run: PastRun, chosen: pa.Table) -> tuple[RunFinding, ...]:
    """Rows of `findings`, in the order of some of their columns."""
    return tuple(run.whole(FINDINGS, RunFinding, chosen, FINDING_KEYS).values())


def _decisions(run: PastRun, shown: Sequence[Cluster], without_gone: Sequence[RecoveryFacts]) -> Iterator[ReportedDecision]:
    """What to decide, worst first; with the cluster's label where there are several."""
    label = {cluster.cluster_id: cluster.label for cluster in shown} if len(shown) > 1 else {}
    without = {facts.cluster_id: due_of(facts) for facts in without_gone}
    known = fully_known(run)  # what somebody knows of needs no decision
    clusters = sorted({row.cluster_id for row in run.runs if row.cluster_id != NO_CLUSTER})
    made = [(one, cluster) for cluster in clusters for one in decisions(without.get(cluster) or due_facts(run, cluster, known))]
    for one, cluster in sorted(made, key=lambda row: row[0].urgency):
        yield ReportedDecision(
            text=f"{label[cluster]}: {one.text}" if cluster in label else one.text,
            urgency=one.urgency.name.lower(),
            partitions=tuple(PartitionPlace(cluster_id=cluster, topic=topic, partition=n) for topic, n in one.partitions[:_PLACES]),
        )


def _clusters(run: PastRun) -> list[Cluster]:
    """One of each row of `audit_runs`, with what the other tables count."""
    rows = [row for row in run.runs if row.cluster_id != NO_CLUSTER]
    paths = {row.cluster_id: _path(row, rows) for row in rows}
    label = labels({cluster: PurePath(path) for cluster, path in paths.items()})
    pairs = run.counts(REPLICA_VERDICTS, ["cluster_id", "verdict", "leader_source"])
    unknown = sorted({verdict for _cluster, verdict, _source in pairs}.difference(Verdict))
    if unknown:
        raise UsageError(f"run {run.run_id}: this version knows no verdict {', '.join(unknown)}; show it with the version that wrote it")
    problems = run.counts(INPUT_ERRORS, ["cluster_id"])
    # only in those of --compare records
    unread = run.counts(REPLICA_VERDICTS, ["cluster_id"], _UNREAD) if run.settings.get("compare") == "records" else Counter()
    unclean = run.counts(LEADER_EPOCHS, ["cluster_id"], ds.field("election") == str(ElectionKind.UNCLEAN))
    offline = counted(found(run, ["cluster_id"], ds.field("code") == _OFFLINE), ["cluster_id"])
    groups = run.counts(CONSUMER_IMPACTS, ["cluster_id", "group_id"], ds.field("affected"))
    made = []
    for row in rows:
        own = {(verdict, source): count for (cluster, verdict, source), count in pairs.items() if cluster == row.cluster_id}
        verdicts: Counter[str] = Counter()
        for (verdict, _source), count in own.items():
            verdicts[verdict] += count
        hit = [count for (cluster, _group), count in groups.items() if cluster == row.cluster_id]
        made.append(
            Cluster(
                cluster_id=row.cluster_id,
                path=paths[row.cluster_id],
                label=label[row.cluster_id],
                brokers=_brokers(run, row.cluster_id) if row.brokers is None else row.brokers,
                replicas=row.replicas or 0,
                partitions=row.partitions or 0,
                protocol=row.protocol or "unknown",
                protocol_reason=row.protocol_reason or "reason not recorded",
                # an old run does not tell; only an inferred leader speaks against it
                metadata=all(source != INFERRED for _verdict, source in own) if row.has_metadata is None else row.has_metadata,
                inferred_leaders=sum(count for (_verdict, source), count in own.items() if source == INFERRED),
                records_unread=unread[(row.cluster_id,)],
                proven_healthy=row.proven_healthy,
                verdicts=by_verdict(verdicts),
                input_errors=problems[(row.cluster_id,)],
                unclean_elections=unclean[(row.cluster_id,)],
                affected_groups=len(hit),
                affected_positions=sum(hit),
                last_seen_run_id=row.last_seen_run_id,
                missing_broker_ids=row.missing_broker_ids or (),
                offline_partitions=offline[(row.cluster_id,)],
                oldest_capture=oldest_capture(run, row.cluster_id, row.started_at),
                oldest_check=oldest_check(run, row.cluster_id),
                never_checked=never_checked(run, row.cluster_id),
            )
        )
    return made


def _brokers(run: PastRun, cluster_id: str) -> int:
    """Brokers of which the input holds a replica: what a run of an older version tells."""
    return len(run.counts(REPLICA_LOGS, ["broker_id"], ds.field("cluster_id") == cluster_id))


def _findings(run: PastRun, count: int) -> list[Finding]:
    """The worst findings: by severity, then by what was committed and is lost, then by records."""
    names = [*_PAIR, "severity", "verdict", "removed_committed", "lost_records"]
    rows = without_known(run, run.read(REPLICA_VERDICTS, names, ds.field("severity") != str(Severity.NONE)))
    ranked = rows.append_column("severity_rank", severity_ranks(rows["severity"]))
    ranked = ranked.append_column("verdict_rank", _rank(rows["verdict"], VERDICTS_BY_LOSS))
    order = [
        ("severity_rank", "ascending"),
        ("verdict_rank", "ascending"),
        ("removed_committed", "descending"),
        ("lost_records", "descending"),
        *((name, "ascending") for name in (*PARTITION, "follower_id")),
    ]
    worst = run.whole(REPLICA_VERDICTS, ReplicaVerdict, rows.take(in_order(ranked, order)[:count]), _PAIR)
    is_bad = ds.field("applies") & (ds.field("fetcher_fails") | ds.field("still_diverged"))
    bad = run.read(TRUNCATION_POINTS, [*_PAIR, *_OUTCOMES], is_bad).to_pylist() if worst else []
    outcomes = {tuple(row[name] for name in _PAIR): {name: row[name] for name in _OUTCOMES} for row in bad}
    good = dict.fromkeys(_OUTCOMES, False)
    return [Finding(cluster_id=key[0], row=row, **outcomes.get(key, good)) for key, row in worst.items()]


def _partition_codes(run: PastRun) -> dict[str, int]:
    counts = counted(found(run, ["code"]), ["code"])
    return {str(code): counts[(str(code),)] for code in PartitionCode if counts[(str(code),)]}


def _offline(run: PastRun, count: int) -> tuple[RunFinding, ...]:
    """Partitions that nobody leads, those of clusters that run first."""
    rows = found(run, [*FINDING_KEYS, "cluster_stopped", *PARTITION], ds.field("code") == _OFFLINE)
    ranked = rows.append_column("stopped_rank", pc.cast(rows["cluster_stopped"], pa.int8()))
    order = [("stopped_rank", "ascending"), *((name, "ascending") for name in PARTITION)]
    return whole_findings(run, rows.take(in_order(ranked, order)[:count]))


def _others(run: PastRun, count: int) -> tuple[RunFinding, ...]:
    """The other findings that are no verdict on a follower."""
    others = found(run, [*FINDING_KEYS, "severity", "code", *PARTITION, "broker_id", "about"], ds.field("code") != _OFFLINE)
    is_other = (ds.field("about") != str(FindingAbout.FOLLOWER)) | ds.field("code").isin(list(map(str, PartitionCode)))
    others = others.filter(is_other)
    ranked = others.append_column("severity_rank", severity_ranks(others["severity"]))
    order = [("severity_rank", "ascending"), *((name, "ascending") for name in ("code", *PARTITION, "broker_id"))]
    return whole_findings(run, others.take(in_order(ranked, order)[:count]))


def _impacts(run: PastRun, count: int) -> list[Impact]:
    """The positions of groups that a truncation affects, those with most records gone first."""
    keys = [*PARTITION, "group_id"]
    found = run.read(CONSUMER_IMPACTS, [*keys, "records_gone"], ds.field("affected"))
    order = [("records_gone", "descending"), *((name, "ascending") for name in keys)]
    worst = run.whole(CONSUMER_IMPACTS, ConsumerImpact, found.take(in_order(found, order)[:count]), keys)
    return [Impact(key[0], row) for key, row in worst.items()]


def _candidates(run: PastRun, count: int) -> tuple[list[Choice], int]:
    """Partitions where another leader would lose less: every replica as the leader, the best first; and how many others lose something."""
    if not run.settings.get("what_if_leaders", True):
        return [], 0  # only partitions without a leader have rows then, which stand with them
    matters = run.read(WHAT_IF_LEADERS, PARTITION, ds.field("lost_offsets") > 0).group_by(PARTITION).aggregate([])
    if not len(matters):
        return [], 0
    names = [*PARTITION, "candidate_id", "rank", "is_leader", "lost_committed"]
    every = run.read(WHAT_IF_LEADERS, names).join(matters, PARTITION, join_type="inner")
    every = every.take(
        in_order(every, [*((name, "ascending") for name in PARTITION), ("rank", "ascending"), ("candidate_id", "ascending")])
    )
    keys = every.select(PARTITION).to_pydict()
    places = list(zip(*keys.values(), strict=True))
    begins = [place for place, key in enumerate(places) if not place or key != places[place - 1]]
    first = every.take(begins).append_column("begins", pa.array(begins))
    better = first.filter(~ds.field("is_leader"))
    order = [("lost_committed", "descending"), *((name, "ascending") for name in PARTITION)]
    chosen: list[Any] = better.take(in_order(better, order)[:count])["begins"].to_pylist()
    ends = dict(zip(begins, [*begins[1:], len(every)], strict=True))
    shown = every.take(pa.array([place for begin in chosen for place in range(begin, ends[begin])], pa.int64()))
    rows = run.whole(WHAT_IF_LEADERS, WhatIfLeader, shown, [*PARTITION, "candidate_id"])
    loses = ds.field("is_leader") & (ds.field("rank") == 1) & (ds.field("lost_offsets") > 0)
    return [Choice(key[0], row) for key, row in rows.items()], len(run.read(WHAT_IF_LEADERS, PARTITION, loses))


def _already_lost(run: PastRun) -> int:
    """The partitions where brokers have truncated since what no other one holds."""
    found = run.read(WHAT_IF_LEADERS, [*PARTITION, "already_lost_offsets"])  # of an older run the column is null
    return len(found.filter(ds.field("already_lost_offsets") > 0).group_by(PARTITION).aggregate([]))


def _path(row: AuditRun, rows: Sequence[AuditRun]) -> str:
    """The cluster's root; of an older run, which does not tell it, its inputs, or the cluster's id."""
    return row.path or (", ".join(row.inputs or ()) if len(rows) == 1 else row.cluster_id)


def _rank(values: Any, order: Sequence[str]) -> Any:
    """The place of each value of a column in an order; an unknown one comes first."""
    return pc.fill_null(pc.index_in(values, pa.array(order)), pa.scalar(-1, pa.int32()))


def _null_first(problems: pa.Table) -> pa.Table:
    """Problems with a number in the place of none, which sorts before all others."""
    for name in ("line", "byte_offset"):
        filled: Any = pc.fill_null(problems[name], pa.scalar(-1, pa.int64()))
        problems = problems.set_column(problems.schema.get_field_index(name), name, filled)
    return problems


_KEYS = ["cluster_id", "code", "topic", "partition", "broker_id"]
_COLUMNS = [*_KEYS, "finding_key", "severity"]
_RESOLVED = 50
_LEADERS = 200


def page_data(run: PastRun, top: int) -> PageData:
    """Everything that the page of a run shows of the run as a whole, with the worst `top` findings.

    Raises:
        UsageError: a table cannot be read.
    """
    report = report_of(run, top)
    about = run.runs[0]
    return PageData(
        report=report,
        started_at=about.started_at,
        finished_at=max((row.finished_at for row in run.runs if row.finished_at is not None), default=None),
        run_date=about.run_date,
        inputs=about.inputs or (),
        versions=tuple(sorted((about.versions or {}).items())),
        settings=tuple((name, str(value)) for name, value in sorted(run.settings.items())),
        losses=_losses(run),
        statuses=_statuses(run, report.findings),
        leaders=_leaders(run),
        resolved=_some(run, run.read(FINDINGS, _COLUMNS, ds.field("status") == str(Status.RESOLVED)), _RESOLVED),
        unconfirmed=_some(run, findings(run, _COLUMNS, [str(Status.UNCONFIRMED)]), _RESOLVED),
    )


def _losses(run: PastRun) -> Losses:
    lost = run.read(
        REPLICA_VERDICTS,
        [*PARTITION, "verdict", "follower_id", "removed_committed"],
        ds.field("verdict") == str(Verdict.COMMITTED_LOSS),
    )
    lost = without_known(run, lost)
    each = lost.group_by(PARTITION).aggregate([("removed_committed", "max"), ([], "count_all")]).to_pylist()
    return Losses(
        partitions=len(each),
        offsets=sum(row["removed_committed_max"] for row in each),
        at_least=any(row["count_all"] > 1 for row in each),
    )


def _statuses(run: PastRun, findings: Sequence[Finding]) -> tuple[str, ...]:
    """The status of each finding."""
    if not findings:
        return ()
    schema = nullable_columns(FINDINGS, _KEYS)
    wanted = pa.Table.from_pylist(
        [
            {
                "cluster_id": f.cluster_id,
                "code": f.row.verdict,
                "topic": f.row.topic,
                "partition": f.row.partition,
                "broker_id": f.row.follower_id,
            }
            for f in findings
        ],
        schema=schema,
    ).append_column("place", pa.array(range(len(findings)), pa.int64()))
    known = run.read(FINDINGS, [*_KEYS, "status"], ds.field("status").isin(FOUND_NOW))
    joined = wanted.join(known, _KEYS, join_type="left outer")
    said = {row["place"]: row["status"] or "" for row in joined.select(["place", "status"]).to_pylist()}
    return tuple(said[place] for place in range(len(findings)))


def _leaders(run: PastRun) -> tuple[RunFinding, ...]:
    """Findings that are no verdict on a follower: leaders that cannot be read, and those of a partition, the worst first."""
    unreadable = str(Verdict.UNREADABLE)
    codes = [unreadable, *map(str, PartitionCode)]
    own = found(run, _COLUMNS, ds.field("code").isin(codes))
    if not len(own):
        return ()
    followers = run.read(REPLICA_VERDICTS, [*PARTITION, "verdict", "follower_id"], ds.field("verdict") == unreadable)
    keys = [*PARTITION, "code", "broker_id"]
    return _some(run, own.join(followers, keys, [*PARTITION, "verdict", "follower_id"], join_type="left anti"), _LEADERS)


def _some(run: PastRun, found: pa.Table, most: int) -> tuple[RunFinding, ...]:
    ranked = found.append_column("severity_rank", severity_ranks(found["severity"]))
    first = pa.array([str(PartitionCode.OFFLINE_PARTITION)])
    ranked = ranked.append_column("code_rank", pc.index_in(found["code"], first))  # null comes last
    order = [(name, "ascending") for name in ("severity_rank", "code_rank", *_KEYS)]
    return whole_findings(run, found.take(in_order(ranked, order)[:most]))
