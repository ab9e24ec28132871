"""A partition of a past run explained, with what the plan of that run does about it."""

from __future__ import annotations

from dataclasses import replace

from replica_audit.errors import AuditError
from replica_audit.past.recovery import recovery_of
from replica_audit.past.run import PastRun
from replica_audit.past.unstored_rows import WithUnstored
from replica_audit.recovery.plan import plan_of
from replica_audit.recovery.steps import GroupPolicy, Plan
from replica_audit.report.facts.explanation import Explained, ToDo, explain
from replica_audit.report.facts.question import Question
from replica_audit.storage.warehouse.arrow_tables import ArrowTables


class Explainer:
    """Explains partitions. The plan of each cluster of each run that is asked for is made once."""

    def __init__(self, tables: ArrowTables, *, of: ArrowTables | None = None) -> None:
        """Explain from `tables`; from those in `of` where somebody has read the rows of the partitions already."""
        self._tables = tables
        self._rows = WithUnstored(of or tables)
        self._plans: dict[tuple[str, str], Plan | str] = {}

    def explain(self, asked: Question) -> Explained:
        """Explain what was asked for.

        Raises:
            UsageError: there is no such run, partition or follower, or a table cannot be read.
        """
        found = explain(self._rows, asked)
        return replace(found, to_do=self._to_do(found))

    def _to_do(self, found: Explained) -> ToDo:
        facts = found.partition
        key = (facts.topic, facts.partition)
        plan = self._plan(facts.run.run_id, facts.run.cluster_id)
        if isinstance(plan, str):
            return ToDo(no_plan=plan)
        brokers = {role.broker_id for role in facts.roles} | {one.verdict.follower_id for one in found.followers}
        refusals = tuple(replace(one, of=own) for one in plan.refusals if (own := tuple(place for place in one.of if place[:2] == key)))
        return ToDo(steps=plan.about(key, brokers), refusals=refusals)

    def _plan(self, run_id: str, cluster_id: str) -> Plan | str:
        """The plan of a cluster, or why there is none."""
        if (run_id, cluster_id) not in self._plans:
            try:
                facts = recovery_of(PastRun(self._tables, run_id), cluster_id)
                self._plans[run_id, cluster_id] = plan_of(facts, GroupPolicy.RE_READ)
            except AuditError as error:
                self._plans[run_id, cluster_id] = str(error)
        return self._plans[run_id, cluster_id]
