"""One partition of one run: explained, plotted, and down to the batches on both sides."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from html import escape
from itertools import islice
from typing import Any

import altair as alt
import pandas as pd

from replica_audit.commands.command import show
from replica_audit.errors import InputError, UsageError
from replica_audit.files.locations import located
from replica_audit.formats.replicas.broker_files import replicas_of
from replica_audit.formats.replicas.replica_reader import Located, batches_in
from replica_audit.model import ReplicaFiles
from replica_audit.notebook import charts
from replica_audit.notebook.frames import FrameSource, Value, aligned, batch_frame, frame, known_table, pandas_frame, side_by_side
from replica_audit.notebook.simulation import PartitionSimulator, frame_of, simulated_frame
from replica_audit.past.explained import Explainer
from replica_audit.past.unstored_rows import WithUnstored
from replica_audit.protocol.simulation import Action
from replica_audit.report.facts.explanation import Explained, Explanation, explain
from replica_audit.report.facts.question import Question
from replica_audit.report.text import explanation_text
from replica_audit.storage.inputs.sources import confined_to, discover

_CURRENT = "current"


class Partition:
    """One partition of one run.

    `explain()` tells everything in words, `lineage()` plots it; `epochs()`, `rounds()`, `verdicts()`, `transactions()` are its tables;
    `batches(broker)` and `side_by_side()` read the segments themselves.
    """

    def __init__(self, place: FrameSource, question: Question) -> None:
        """Find the partition.

        Raises:
            UsageError: it is not there, or in several clusters.
        """
        self._place = place
        # told here, not by the first method
        self._explained = explain(WithUnstored(place.tables), question)
        run = self._explained.partition.run
        self.run_id, self.cluster_id = run.run_id, run.cluster_id
        self.topic, self.partition, self.name = question.topic, question.partition, question.name
        self._keys: dict[str, Value] = {"run_id": self.run_id, "cluster_id": self.cluster_id}
        self._keys |= {"topic": self.topic, "partition": self.partition}

    @property
    def explained(self) -> Explained:
        """Return what `explain()` prints, as values."""
        return self._explained

    @cached_property
    def simulator(self) -> PartitionSimulator:
        """The simulator of this partition; its `simulate` returns values."""
        return PartitionSimulator(self._place.tables, self.run_id, self.cluster_id, self.topic, self.partition)

    def simulate(self, steps: Sequence[str | Action]) -> pd.DataFrame:
        """`Run.simulate` of this partition, without the columns that name it."""
        return simulated_frame(frame_of(self.simulator.simulate(steps)), [])

    def orders(self) -> pd.DataFrame:
        """The ways to bring the partition back if nobody leads, the one that loses least first; columns as of `PartitionSimulator`."""
        return self.simulator.orders()

    @property
    def brokers(self) -> tuple[int, ...]:
        """The brokers that hold a replica in the input, ascending."""
        return tuple(sorted(set(self._logs["broker_id"])))

    def explain(self, follower: int | None = None) -> None:
        """Print what the command `explain --protocols --partition` prints; of one follower, or all."""
        show(explanation_text.render(Explainer(self._place.tables).explain(self._asked(follower)), protocols=True))

    def lineage(self, first: int | None = None, last: int | None = None) -> alt.LayerChart:
        """Plot every replica as a bar over offsets, with marks where logs diverge, are cut, and where groups read on.

        Args:
            first: lowest offset to show, inclusive; None for a window around what differs, or all where nothing does.
            last: highest offset, inclusive; None likewise.
        """
        return charts.lineage(self._explained, self._unpaired(), first, last)

    def table(self, name: str, **equal: Any) -> Any:
        """Any table's rows on this partition in this run; `spark=` and columns by name as for `Run.table`."""
        spark = equal.pop("spark", None)
        return frame(self._place, name, spark, equal | self._keys)

    def verdicts(self) -> pd.DataFrame:
        """Its rows of `replica_verdicts`: one per follower."""
        return self._pandas("replica_verdicts")

    def epochs(self) -> pd.DataFrame:
        """Its rows of `epoch_start_offsets`: one per replica and epoch, by checkpoint and by batches."""
        return self._pandas("epoch_start_offsets")

    def transactions(self) -> pd.DataFrame:
        """Its rows of `open_transactions`: one per transaction that is open at the end of the leader's log."""
        return self._pandas("open_transactions")

    def rounds(self, follower: int | None = None) -> pd.DataFrame:
        """The leader's answers under every protocol, in order.

        Returns:
            follower_id, protocol, applies, round (from 1), requested_epoch, answered_epoch, answered_end_offset (exclusive), truncate_to
            (missing: cuts nothing), complete, decided_by (the case of the rule, as in `truncation_points`; missing in runs of older
            versions). Protocols that ask nothing have no rows.
        """
        names = ["requested_epoch", "answered_epoch", "answered_end_offset", "truncate_to", "complete", "decided_by"]
        rows = [
            {"follower_id": one.verdict.follower_id, "protocol": point.protocol, "applies": point.applies, "round": number}
            | {name: getattr(asked, name) for name in names[:-1]}
            | {"decided_by": None if asked.decided_by is None else str(asked.decided_by)}
            for one in self._answer(follower).followers
            for point in one.points
            for number, asked in enumerate(point.rounds or (), 1)
        ]
        types = {"follower_id": "Int32", "applies": "boolean", "round": "Int64", "complete": "boolean", "decided_by": "string"}
        types |= {"requested_epoch": "Int32", "answered_epoch": "Int32", "answered_end_offset": "Int64", "truncate_to": "Int64"}
        return pd.DataFrame(rows, columns=["follower_id", "protocol", "applies", "round", *names]).astype(types)

    def batches(self, broker: int, first: int = 0, last: int | None = None) -> pd.DataFrame:
        """The batch headers of one replica, read from its segments as they are now.

        Args:
            broker: that holds the replica.
            first: lowest offset of interest, inclusive: batches that hold an offset of the range are read.
            last: highest offset, inclusive; None for the end of the log.

        Returns:
            One row per batch, columns as of `batch_frames.batch_frame`; a last row with `damage` where a segment stops being a log.

        Raises:
            UsageError: the broker has no replica in the input, or the files are no longer where the audit read them.
        """
        return batch_frame(self._batches(broker, first, last))

    def side_by_side(self, follower: int | None = None, *, before: int = 3, most: int = 200) -> pd.DataFrame:
        """The batches of leader and follower from where their logs diverge, or the follower is cut, with some before.

        Args:
            follower: its broker; None for the first one that is cut or differs, else the first.
            before: how many batches of each side before the place.
            most: how many batches of each side in all; what lies behind the shorter of them is left out on both.

        Returns:
            Columns as of `batch_frames.side_by_side`. Where nothing differs: from the end of the shorter log.

        Raises:
            UsageError: there is no such follower, or one side is not in the input.
        """
        one = self._pair(follower)
        physical = one.outcome.physical_offset if one.outcome else None
        places = [offset for offset in (one.verdict.divergence_offset, physical) if offset is not None]
        place = min(places, default=self._shorter_end(one))
        brokers = (one.verdict.leader_id, one.verdict.follower_id)
        sides = [batch_frame(islice(self._batches(broker, place, None, before), most)) for broker in brokers]
        return side_by_side(*aligned(sides[0], sides[1], place, most), physical)

    def _shorter_end(self, one: Explanation) -> int:
        ends = (side.log.log_end_offset for side in (one.leader, one.follower) if side.log is not None)
        return max(0, min((end for end in ends if end is not None), default=0) - 1)

    def batch_plot(self, follower: int | None = None, *, before: int = 3, most: int = 60) -> alt.LayerChart:
        """Plot what `side_by_side` gives: every batch a box, the CRC in its tooltip. Its data: side and the batches' columns."""
        one = self._pair(follower)
        return charts.batch_plot(
            self.side_by_side(one.verdict.follower_id, before=before, most=most), self.name, one.verdict.leader_id, one.verdict.follower_id
        )

    def _batches(self, broker: int, first: int, last: int | None, before: int = 0) -> Iterator[Located]:
        logs = self._logs[self._logs["broker_id"] == broker]
        if logs.empty:
            brokers = ", ".join(map(str, self.brokers)) or "none"
            raise UsageError(f"broker {broker} has no replica of {self.name} in the input; these have: {brokers}")
        log = logs.iloc[0]
        segments = self._pandas("segment_epochs")
        own = segments[(segments["broker_id"] == broker) & (segments["log_dir"] == log["log_dir"])]
        run = self._explained.partition.run
        follow_links = bool(run.settings.get("follow_links"))
        sources = set(own["source"]) or {"raw"}
        try:
            files = replica_files(
                run.inputs or (), self.cluster_id, broker, log["log_dir"], log["directory"], sources, follow_links=follow_links
            )
            yield from batches_in(files.segments, first, last, before=before)
        except (OSError, InputError) as error:
            raise UsageError(
                f"{log['log_dir']}/{log['directory']}: cannot be read any more: {error}; put the input back, or audit again"
            ) from None

    def _answer(self, follower: int | None) -> Explained:
        if follower is None:
            return self._explained
        return explain(WithUnstored(self._place.tables), self._asked(follower))

    def _asked(self, follower: int | None) -> Question:
        return Question(topic=self.topic, partition=self.partition, run_id=self.run_id, cluster_id=self.cluster_id, follower_id=follower)

    def _pair(self, follower: int | None) -> Explanation:
        followers = self._answer(follower).followers
        if not followers:
            raise UsageError(f"{self.name} has no follower to compare: {self._explained.partition.alone}")
        differing = (one for one in followers if one.verdict.divergence_offset is not None or one.verdict.removed_offsets)
        return next(differing, followers[0])

    def _unpaired(self) -> list[charts.Stretch]:
        """Return what the epoch tables say where there is no follower."""
        if self._explained.followers:
            return []
        rows = self.epochs().dropna(subset=["end_offset"])
        held = rows[rows["in_effect"] & (rows["end_offset"] > rows["start_offset"])]
        return [
            charts.Stretch(
                f"broker {row['broker_id']}", str(row["leader_epoch"]), int(row["start_offset"]), int(row["end_offset"]), "stays"
            )
            for row in held.to_dict("records")
        ]

    @cached_property
    def _logs(self) -> pd.DataFrame:
        rows = self._pandas("replica_logs")
        return rows[rows["state"] == _CURRENT]

    def _pandas(self, name: str) -> pd.DataFrame:
        return pandas_frame(self._place.tables, known_table(name), self._keys)

    def __repr__(self) -> str:
        said = ", ".join(f"follower {one.verdict.follower_id} {one.verdict.verdict}" for one in self._explained.followers)
        return f"Partition {self.name} of run {self.run_id}: {said or self._explained.partition.alone}"

    def _repr_html_(self) -> str:
        return (
            f"<p><b>Partition</b> {escape(repr(self).removeprefix('Partition '))}.</p>"
            "<p><code>.explain()</code> in words, <code>.lineage()</code> as a plot, <code>.rounds()</code>, <code>.epochs()</code>, "
            "<code>.batches(broker)</code>, <code>.side_by_side()</code>, <code>.batch_plot()</code>.</p>"
        )


def replica_files(
    inputs: Sequence[str],
    cluster_id: str,
    broker_id: int,
    log_dir: str,
    directory: str,
    sources: Collection[str],
    *,
    follow_links: bool = False,
) -> ReplicaFiles:
    """The files of one replica directory, as they are now.

    Raw segments are looked for where the table says that they lie. What was dumped or collected lay on the broker; it is found by walking
    the broker's folder again.

    Args:
        inputs: of the run, as `audit_runs` has them.
        cluster_id: of the run's cluster.
        broker_id: the broker that holds the replica.
        log_dir: of `replica_logs`.
        directory: of `replica_logs`.
        sources: the values of `segment_epochs.source` for the replica: raw, dump, collected.
        follow_links: as the run did.

    Raises:
        UsageError: they are no longer there.
    """
    confined_to(inputs, follow_links=follow_links)
    if set(sources) <= {"raw"}:
        found = _among(replicas_of(located(log_dir) / directory, is_replica=True), log_dir, directory)
        if found is not None:
            return found
    for root in discover(inputs, follow_links=follow_links).roots:
        for broker in root.brokers:
            if (root.cluster_id, broker.broker_id) == (cluster_id, broker_id):
                found = _among(replicas_of(broker.path), log_dir, directory)
                if found is not None:
                    return found
    raise UsageError(
        f"{log_dir}/{directory}: the files of broker {broker_id} are not where the audit read them; "
        f"put its input back ({', '.join(inputs) or 'not recorded'}), or audit again"
    )


def _among(found: Iterator[object], log_dir: str, directory: str) -> ReplicaFiles | None:
    held = (one for one in found if isinstance(one, ReplicaFiles))
    return next((one for one in held if (one.log_dir, one.directory) == (log_dir, directory)), None)
