"""All replicas of one partition, side by side → every row that the audit says about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial

from replica_audit.formats.log_dir.names import METADATA_TOPIC
from replica_audit.model import ReplicaFiles
from replica_audit.partition.choices.futures import future_rows
from replica_audit.partition.choices.once_corrected import followers_once_corrected
from replica_audit.partition.choices.what_if import Cut, begin_row, cuts_since, leader_rows, rejected_rows, without_log, without_set_aside
from replica_audit.partition.findings.acknowledging import acknowledging_all
from replica_audit.partition.findings.audited import Audited, ComparedPairs
from replica_audit.partition.findings.consumers import as_groups_find_it, impact_rows, is_election_open
from replica_audit.partition.findings.found_rows import checked_row, found_rows, recovery_takes
from replica_audit.partition.findings.roles import Reach, role_rows
from replica_audit.partition.findings.sequence_gaps import sequence_gap_findings, sequence_gap_rows
from replica_audit.partition.findings.set_aside import Replicas, brokers_that_set_aside, set_aside_findings
from replica_audit.partition.findings.transactions import TransactionsKnown
from replica_audit.partition.known.cluster_facts import ClusterFacts, is_alive, may_be_of_different_times, may_have_run
from replica_audit.partition.known.known_partition import KnownPartition, ReadAgain, ReadSnapshot, ReadStored, UnreadBatches, compaction
from replica_audit.partition.pairs import pair as pairs
from replica_audit.partition.pairs.not_compared import not_compared_row, why_not_compared, with_empty_side
from replica_audit.partition.pairs.pair import Pair, in_log_order, measure
from replica_audit.partition.pairs.record_rows import record_rows
from replica_audit.partition.pairs.records import FEW_BYTES, RecordsWanted, bytes_of, compared_logs, wanted, with_records
from replica_audit.partition.pairs.sides import Side, as_far_as_copied, witnesses
from replica_audit.partition.replicas import loading as replicas
from replica_audit.partition.replicas import replica_rows
from replica_audit.partition.replicas.all_loaded import load_all
from replica_audit.partition.replicas.corrected_checkpoints import with_refused, with_right_table
from replica_audit.partition.replicas.damaged_batches import damaged_rows, with_known_copies
from replica_audit.partition.replicas.known_empty import known_empty
from replica_audit.partition.replicas.replica_problems import gone_everywhere, knows_later
from replica_audit.partition.replicas.replica_rows import leader_epoch_rows
from replica_audit.protocol.cluster.leadership import (
    INFERRED,
    NO_LEADER,
    Leadership,
    farthest_copies,
    inferred_because,
    is_outdated,
    known_epoch,
    latest,
    leadership,
    nothing_known,
    without_leader,
)
from replica_audit.protocol.cluster.metadata_image import GIVES_NOTHING_UP
from replica_audit.protocol.cluster.topic_ids import HeldId, ids_in_doubt
from replica_audit.protocol.comparison.commitment import CommitHistory, Context, unreached_high_watermark
from replica_audit.protocol.comparison.compaction import touched_by
from replica_audit.protocol.comparison.content import CompareMode
from replica_audit.protocol.epochs.replica_log import LoadedLog
from replica_audit.protocol.verdict.partition_findings import incident_rows
from replica_audit.protocol.verdict.verdict import Judgement, inconclusive
from replica_audit.recovery.facts import will_be_cut
from replica_audit.recovery.outcomes import AuditedRows, replica_starts
from replica_audit.rows import AuditedPartition
from replica_audit.rows.codes import Cause, Protocol
from replica_audit.rows.findings import FoundFinding
from replica_audit.rows.history import LoggedIncident
from replica_audit.rows.pairs import ReplicaVerdict
from replica_audit.rows.records import DamagedBatch
from replica_audit.rows.replicas import ReplicaLog, ReplicaRole
from replica_audit.rows.runs import ReportedProblem
from replica_audit.rows.starts import ReplicaStart
from replica_audit.rows.what_if import WhatIfLeader


class PartitionAudit:
    """The audit of one partition."""

    def __init__(
        self, known: KnownPartition, cluster: ClusterFacts, read_again: ReadAgain, read_stored: ReadStored, read_snapshot: ReadSnapshot
    ) -> None:
        """Load every replica of a partition.

        Args:
            known: what was read of it.
            cluster: the facts of its cluster.
            read_again: reads batches again where those of a scan are not enough.
            read_stored: reads them with their bytes, where headers are not.
            read_snapshot: reads producer snapshots, where the log does not tell.
        """
        self.cluster = cluster
        self.apart = known.part(cluster.is_other_copy) if cluster.other_copies else None
        known = known if self.apart is None else known.part(lambda broker, log_dir: not cluster.is_other_copy(broker, log_dir))
        self.known = known
        self.unread = UnreadBatches()
        self.readers = self.unread.noted(read_again), self.unread.noted(read_stored), read_snapshot
        self.topic, self.partition = known.topic, known.partition
        latest_claim = latest([claim for _, claim in known.claims], cluster.metadata_log_end)
        self.has_metadata = latest_claim is not None
        told = latest_claim or nothing_known(self.topic, self.partition)
        self.compaction = compaction(known, told.compacted)
        compacted = self.compaction.anywhere
        self.metadata = replace(told, compacted=compacted)
        self.copies = farthest_copies(known.claims)
        self.events = in_log_order(known.events)
        self.loaded = self._loaded(known)
        held = {one.broker_id for one in self.loaded if one.is_compared}
        self.loaded += known_empty(told, held, cluster, self._alive)
        self.compared = {one.broker_id: one for one in self.loaded if one.is_compared}
        self.outdated = self._outdated()
        if self.outdated:
            self.metadata = without_leader(self.metadata)
        self.unknown_brokers = {broker for broker in self.compared if self._is_unknown(broker)}
        self.replicas = {
            broker: one.replica(
                alive=self._alive(broker, one.files),
                may_have_run=self._may_have_run(broker, one.files),
                in_isr=broker in self.metadata.isr,
                frozen=cluster.broker_states.get(broker) == "paused",
                of_one_time=cluster.simultaneous,
                has_remote_storage=bool(self.metadata.remote_storage),
            )
            for broker, one in self.compared.items()
            if one.log is not None and broker not in self.unknown_brokers
        }
        self.readable = {broker: replica for broker, replica in self.replicas.items() if not replica.unreadable}
        self.leadership = leadership(self.metadata, list(self.replicas.values()))
        self.ids_in_doubt = ids_in_doubt(self.metadata.topic_id, self._held_ids(), is_leader_known=self.leadership.source != INFERRED)
        self.because = inferred_because(self.metadata if self.has_metadata else None, outdated=bool(self.outdated))
        self.inferred_because = None if self.because is None else str(self.because)
        self.cleaned_until = max((one.files.cleaner_offset or 0 for one in self.compared.values()), default=0)
        self.context = Context(
            leader_epoch=self.metadata.leader_epoch,
            leader_is_inferred=self.leadership.source == INFERRED,
            enters_epoch_at_once=cluster.applies is Protocol.TRUNCATE_ON_FETCH,
            compacted=compacted,
            simultaneous=cluster.simultaneous,
            clean_elections=frozenset(one.leader_epoch for one in self.metadata.elections if one.kind in GIVES_NOTHING_UP),
            touched=touched_by(self.metadata.elections, self.events, self.readable.values()),
            commits=CommitHistory.of(self.metadata, cluster.history, simultaneous=cluster.simultaneous, is_outdated=bool(self.outdated)),
        )

    @property
    def compares_keys(self) -> bool:
        """Whether its records are compared key by key: if somebody asks, or if they are few and something may have left other keys."""
        if not self.compaction.anywhere or self.cluster.compare is not CompareMode.CONTENT:
            return self.compaction.anywhere and self.cluster.compare is CompareMode.RECORDS
        files = [file for one in self.compared.values() for file in one.files_in_log]
        is_few = sum(file.size_bytes for file in files) <= FEW_BYTES and all(map(bytes_of, files))
        # the cleaner may have emptied a segment, or a disk
        is_emptied = any(one.log is not None and one.log.empty_segments for one in self.compared.values())
        return is_few and (self.context.touched is not None or is_emptied)

    @property
    def best_replica(self) -> replicas.Loaded | None:
        """The leader, or without it the replica that would be inferred to lead; one that is damaged only if all are; None: none."""
        among = self.readable or {broker: replace(replica, unreadable=None) for broker, replica in self.replicas.items()}
        leads = self.leadership if self.leadership.leader_id in among else leadership(None, list(among.values()))
        return self.compared.get(leads.leader_id)

    def row(self) -> AuditedPartition:
        """Every row of every table about this partition."""
        leader = self.replicas.get(self.leadership.leader_id)
        made, commits = self._pairs(), self.known.commits
        self.loaded = with_refused(self.loaded, {row.wrong_lines_broker_id for row in made.verdicts})
        modes = self.cluster.applies, self.context, self.cluster.compare
        healed = followers_once_corrected(self.loaded, self.leadership.leader_id, self.replicas, *modes)
        is_at_stake = self.cluster.what_if_at_stake and any(map(will_be_cut, made.verdicts))
        is_asked = self.cluster.what_if_leaders or self.metadata.no_leader or is_at_stake
        choices = list(self._what_if_leaders(made.cuts)) if is_asked else []
        incidents = list(incident_rows(self.events, made.verdicts))
        gaps = list(sequence_gap_rows(self.best_replica, self.compared, self.metadata, self.context))
        damaged = list(damaged_rows(self.loaded, self.leadership.leader_id, self._runs, compacted=self.context.compacted))
        audited = self._audited(made, choices, incidents, damaged)
        leads = self.readable.get(self.leadership.leader_id)
        logs = [replica_rows.log_row(one, healed, ran=self._runs(one)) for one in self.loaded]
        roles = self._roles(made.verdicts)
        found = acknowledging_all(
            [
                *found_rows(audited),
                *sequence_gap_findings(gaps, self.metadata, self.leadership),
                *set_aside_findings(self.topic, self.partition, self._all_logs()),
            ],
            self.cluster.acknowledged,
            gaps,
        )
        # after all that may read files again
        errors = with_known_copies(self._input_errors(), damaged, self.leadership.leader_id)
        return AuditedPartition(
            cluster_id=self.known.cluster_id,
            replica_logs=logs,
            segment_epochs=replica_rows.segment_rows([(self.topic, self.partition, self.known.segments)]),
            differences=made.differences,
            epoch_start_offsets=replica_rows.epoch_rows(
                self.loaded, leader=leader, cleaned_until=self.cleaned_until, compacted=self.context.compacted, metadata=self.metadata
            ),
            epoch_end_offsets=made.lookups,
            truncation_points=made.points,
            replica_verdicts=made.verdicts,
            what_if_leaders=choices,
            replica_roles=roles,
            future_replicas=list(future_rows(self.loaded, self.context, self.cluster.moves)),
            leader_epochs=list(leader_epoch_rows(self.metadata, leads, list(self.replicas.values()))),
            consumer_impacts=list(
                impact_rows(
                    self.metadata,
                    commits,
                    as_groups_find_it(leader, self.leadership, self.replicas, self.metadata.leader_epoch, commits),
                    self.readable,
                    context=self.context,
                    leader_is_down=self.cluster.broker_states.get(self.leadership.leader_id) == "down",
                    is_election_open=is_election_open(self.metadata, self.leadership, choices),
                )
            ),
            damaged_batches=damaged,
            logged_incidents=incidents,
            sequence_gaps=gaps,
            open_transactions=audited.open_transactions or (),
            replica_starts=self._starts(made.verdicts, logs, roles, choices, found, errors),
            found=found,
            checked=[checked_row(audited)],
            input_errors=errors,
        )

    def _starts(
        self,
        verdicts: list[ReplicaVerdict],
        logs: list[ReplicaLog],
        roles: list[ReplicaRole],
        choices: list[WhatIfLeader],
        found: list[FoundFinding],
        errors: Sequence[ReportedProblem],
    ) -> list[ReplicaStart]:
        """What the start of each broker does to its replica; not of the metadata log, whose replicas nothing compares."""
        if self.topic == METADATA_TOPIC:
            return []
        rows = AuditedRows(
            topic=self.topic,
            partition=self.partition,
            verdicts=verdicts,
            logs=logs,
            roles=roles,
            choices=choices,
            found=found,
            problems=errors,
            recovered={
                broker: cut
                for broker in self.compared
                if (cut := recovery_takes(broker, broker if self.metadata.no_leader else self.leadership.leader_id, self.replicas))
            },
            cut_by_recovery={
                broker: (one.log.cut_runs[0].first_offset, one.log.cut_runs[-1].last_offset + 1)
                for broker, one in self.compared.items()
                if one.log is not None and one.log.cut_runs
            },
        )
        return replica_starts(rows)

    def _is_unknown(self, broker: int) -> bool:
        """Whether the metadata names the cluster's brokers, and neither there nor for this partition this one."""
        is_named = broker in self.cluster.named or broker in (*self.metadata.replicas, *self.metadata.ever_replicas)
        return bool(self.cluster.named) and not is_named

    def _held_ids(self) -> Iterator[HeldId]:
        for broker, replica in self.replicas.items():
            log = replica.log
            yield HeldId(broker, replica.topic_id, has_records=bool(log.runs), log_end_offset=log.log_end_offset)

    def _all_logs(self) -> Replicas:
        """Every directory, also those that take no part in verdicts."""
        return Replicas(
            metadata=self.metadata if self.has_metadata and not self.outdated else None,
            loaded=self.loaded,
            apart=self._loaded(self.apart) if self.apart is not None else (),
            cluster=self.cluster,
            runs=self._runs,
            unknown_brokers=self.unknown_brokers,
        )

    def _input_errors(self) -> list[ReportedProblem]:
        """What is wrong with the partition's files."""
        of_scans = [ReportedProblem.of(one.broker_id, problem) for one in self.loaded for problem in one.problems]
        of_records = [ReportedProblem.of(*one) for one in self.known.records.unread] if self.known.records else []
        return [*of_scans, *self.unread.problems(of_scans), *self.outdated, *self._gone_everywhere(), *of_records]

    def _outdated(self) -> list[ReportedProblem]:
        """Why the metadata is not believed as to who leads, if a replica knows better."""
        if self._began_again():
            return []
        leader = self.compared.get(self.metadata.leader)
        has_ids = self.metadata.topic_id is not None or (leader is not None and leader.files.topic_id is not None)  # since 2.8
        has_table = leader is not None and leader.files.checkpoint_state != "not-collected" and not leader.unreadable and has_ids
        known = known_epoch(self.metadata, with_right_table(leader) if leader is not None and has_table else None)
        topic_id = self.metadata.topic_id or (leader.files.topic_id if leader is not None else None)
        for one in self.compared.values():
            log = with_right_table(one)  # a line that the batches beside it contradict knows nothing
            if log and not one.unreadable and one.files.topic_id in (None, topic_id) and is_outdated(known, log):
                return [ReportedProblem.of(one.broker_id, knows_later(one.files, log, self.metadata, known))]
        return []

    def _began_again(self) -> bool:
        """Whether the leader, or a member of the ISR, goes on in the metadata's low epochs behind higher ones: the metadata is newer."""
        logs = (self.compared[broker].log for broker in {self.metadata.leader, *self.metadata.isr} & self.compared.keys())
        return any(log is not None and _goes_on_below(log, self.metadata.leader_epoch) for log in logs)

    @cached_property
    def _gone(self) -> tuple[int, int, int] | None:
        """As `unreached_high_watermark`, where every replica can be read."""
        if not {*self.metadata.replicas, *self.compared} <= self.readable.keys():
            return None
        return unreached_high_watermark(list(self.readable.values()), simultaneous=self.cluster.simultaneous)

    def _gone_everywhere(self) -> list[ReportedProblem]:
        if self._gone is None:
            return []
        broker, end, committed = self._gone
        return [ReportedProblem.of(broker, gone_everywhere(self.compared[broker].files, end, committed))]

    def _roles(self, verdicts: list[ReplicaVerdict]) -> list[ReplicaRole]:
        reaches = {broker: Reach(one.known_end, one.high_watermark) for broker, one in self.replicas.items()}
        rows = role_rows(self.metadata, self.leadership, reaches, self.copies, self.cluster, verdicts)
        return list(rows) if self.has_metadata else []

    def _what_if_leaders(self, cuts: dict[int, Cut]) -> Iterator[WhatIfLeader]:
        leader = self.replicas.get(self.leadership.leader_id)
        topic_id = self.metadata.topic_id or (leader.topic_id if leader else None)
        sides = [
            Side(loaded=self.compared[broker], replica=replica)
            for broker, replica in sorted(self.replicas.items())
            if not replica.topic_id or topic_id in (None, replica.topic_id) or self.ids_in_doubt is not None
        ]
        leads = NO_LEADER if self.leadership.source == INFERRED else self.leadership.leader_id
        cleanly = {broker: one.files.clean_shutdown for broker, one in self.compared.items()}
        begin = partial(begin_row, metadata=self.metadata, replicas=self.replicas, stopped_cleanly=cleanly, cluster=self.cluster)
        aside = brokers_that_set_aside(self._all_logs()) if self.metadata.no_leader else set()
        rows: list[WhatIfLeader] = []
        if len(sides) > 1 or self.metadata.no_leader:
            doubt = self.ids_in_doubt
            found = leader_rows(self.metadata, sides, leads, self._make_pair, cuts, begin_row=begin, ids_in_doubt=doubt)
            rows = without_set_aside(found, aside)
        yield from rows
        yield from without_log([row.candidate_id for row in rows], self.metadata, self.replicas, cleanly, self.cluster, aside)

    def _audited(
        self, made: ComparedPairs, choices: Sequence[WhatIfLeader], incidents: Sequence[LoggedIncident], damaged: Sequence[DamagedBatch]
    ) -> Audited:
        transactions = TransactionsKnown(
            known=self.known, metadata=self.metadata, leadership=self.leadership, compared=self.compared, replicas=self.replicas
        )
        return Audited(
            metadata=self.metadata,
            because=self.because,
            ids_in_doubt=self.ids_in_doubt,
            leadership=self.leadership,
            compared=self.compared,
            replicas=self.replicas,
            copies=self.copies,
            cluster=self.cluster,
            context=self.context,
            is_compacted=self.compaction.of(self.leadership.leader_id),
            made=made,
            choices=choices,
            incidents=incidents,
            damaged=damaged,
            gone_everywhere=self._gone,
            open_transactions=transactions.rows(made.verdicts, self.cluster),
            last_events={event.broker_id: event for event in self.events if event.broker_id is not None},
            without_markers=tuple(transactions.without_markers(made.verdicts, simultaneous=self.cluster.simultaneous)),
        )

    def _make_pair(self, leader: Side, follower: Side) -> pairs.Pair:
        """A pair of two replicas that both have a log, the first one leading."""
        is_real = leader.replica.broker_id == self.leadership.leader_id
        others = witnesses(self.replicas, leader.replica, follower.replica)
        if is_real and self.leadership.source != INFERRED:
            follower = as_far_as_copied(leader, follower, self.context, others)
        return pairs.Pair(
            leader=leader,
            follower=follower,
            leadership=self.leadership if is_real else Leadership(leader.replica.broker_id, self.leadership.source),
            context=replace(
                self.context,
                compacted=self.compaction.of(leader.replica.broker_id, follower.replica.broker_id),
                leads_by_choice=not is_real,
            ),
            applies=self.cluster.applies,
            witnesses=others,
            inferred_because=self.inferred_because,
        )

    def _loaded(self, known: KnownPartition) -> list[replicas.Loaded]:
        formats = self.cluster.formats
        return load_all(
            known,
            self.readers,
            alive=self._alive,
            may_have_run=self._may_have_run,
            changes=self._changes,
            compacted=bool(self.metadata.compacted),
            has_table=partial(formats.has_table, self.metadata.message_format) if formats.leave_tables_alone else None,
        )

    def _changes(self, broker_id: int, files: ReplicaFiles) -> bool:
        return may_be_of_different_times(broker_id, files, self.cluster)

    def _may_have_run(self, broker_id: int, files: ReplicaFiles) -> bool:
        return may_have_run(broker_id, files, self.cluster)

    def _runs(self, one: replicas.Loaded) -> bool | None:
        return self._alive(one.broker_id, one.files)

    def _alive(self, broker_id: int, files: ReplicaFiles) -> bool | None:
        return is_alive(broker_id, files, self.cluster)

    def _pairs(self) -> ComparedPairs:
        made = ComparedPairs()
        followers = {*self.metadata.replicas, *self.compared} - {self.leadership.leader_id}
        if len(followers) + (self.leadership.leader_id >= 0) < 2 and self.leadership.leader_id in self.compared:
            return made
        for follower_id in sorted(followers):
            pair = self.pair(follower_id)
            if isinstance(pair, Judgement):
                keys = pairs.PairKeys(self.topic, self.partition, self.leadership.leader_id, follower_id)
                source, why = self.leadership.source, self.inferred_because
                made.verdicts.append(not_compared_row(keys, source, self.cluster.applies, pair, inferred_because=why))
                continue
            events = [event for event in self.events if event.broker_id == follower_id]
            measured = pairs.with_content(pair, pairs.measure(pair), self.cluster.compare)
            logs = compared_logs(pair, measured, self.cluster, self.metadata) if self.compares_keys else None
            measured = with_records(pair, measured, logs, self.known)
            measured = pairs.with_events(
                pair,
                measured,
                events,
                after_copy=self.cluster.logs_go_on,
                elections=self.metadata.elections,
                until_ms=self.cluster.audited_at_ms,
            )
            cuts, verdict = pairs.compare(pair, measured)
            verdict = with_empty_side(verdict, pair.leader.loaded, pair.follower.loaded)
            made.points += (*cuts, *rejected_rows(pair, measured, self.metadata))
            made.verdicts.append(verdict)
            made.differences += record_rows(pair, measured, show_keys=self.cluster.show_keys)
            made.cuts |= cuts_since(measured)
            made.lookups += pairs.lookup_rows(pair.keys, pair.leader.replica.as_leader(), pair.follower.replica.as_follower())
            made.same_batches += [follower_id] if measured.comparison.proven_equal else []
        return made

    def pair(self, follower_id: int) -> pairs.Pair | Judgement:
        """A follower with the leader, or why it cannot be compared."""
        follower, leader = self.compared.get(follower_id), self.compared.get(self.leadership.leader_id)
        if follower_id in self.unknown_brokers:
            names = ", ".join(map(str, self.cluster.named))
            return inconclusive(Cause.UNKNOWN_BROKER, f"the metadata names brokers {names}, and not {follower_id}: which broker is it?")
        found = why_not_compared(leader, follower, self.leadership.leader_id, self.metadata.topic_id, self.ids_in_doubt)
        if isinstance(found, Judgement):
            return found
        return self._make_pair(*(Side(loaded=one, replica=self.replicas[one.broker_id]) for one in found))


def _goes_on_below(log: LoadedLog, epoch: int) -> bool:
    """Whether a log ends in epochs up to one, behind higher ones than that."""
    return log.began_again is not None and log.runs[-1].leader_epoch <= epoch < max(run.leader_epoch for run in log.runs)


def records_wanted(audit: PartitionAudit) -> RecordsWanted | None:
    """What is to be read of an audited partition; None if nothing is."""
    if not audit.compares_keys:
        return None
    pairs = (audit.pair(broker) for broker in sorted(audit.replicas) if broker != audit.leadership.leader_id)
    found = (compared_logs(pair, measure(pair, ()), audit.cluster, audit.metadata) for pair in pairs if isinstance(pair, Pair))
    producers = {(broker, scan.file): scan.segment.producers for broker, scan in audit.known.segments}
    return wanted([logs for logs in found if logs is not None], list(audit.compared.values()), producers)
