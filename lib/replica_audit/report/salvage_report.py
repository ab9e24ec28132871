"""What a salvage saved, and what it could not, as facts and as text."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from replica_audit.errors import visible
from replica_audit.model.salvage import LogCut, RemovedBefore, ReplayOutcome, UnitOutcome, UnsavedRange
from replica_audit.program import option
from replica_audit.protocol.salvage import KeptBack
from replica_audit.recovery.names import cell, partition_shown, plain, shown
from replica_audit.words import count

ALL_SAVED, NOT_ALL_SAVED = 0, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedCut:
    """One cut, and what came of it.

    `header_records`: what the headers of the batches that were read sum up to; `found_all`: they are the audit's `removed_records`, or the
    audit had no figure.
    """

    cut: LogCut
    record_count: int
    control_count: int
    header_records: int
    kept_back: tuple[tuple[str, int], ...]
    transactions: tuple[tuple[str, int], ...]
    begun_below_cut: int
    unsaved: tuple[UnsavedRange, ...]
    changed: str | None
    files: tuple[str, ...]

    @staticmethod
    def of(cut: LogCut, outcomes: Sequence[UnitOutcome]) -> SavedCut:
        """Sum up the units of a cut."""
        kept_back: Counter[str] = Counter()
        transactions: Counter[str] = Counter()
        for one in outcomes:
            kept_back.update(dict(one.kept_back))
            transactions.update(dict(one.transactions))
        return SavedCut(
            cut=cut,
            record_count=sum(one.record_count for one in outcomes),
            control_count=sum(one.control_count for one in outcomes),
            header_records=sum(one.header_records for one in outcomes),
            kept_back=tuple(sorted(kept_back.items())),
            transactions=tuple(sorted(transactions.items())),
            begun_below_cut=sum(one.begun_below_cut for one in outcomes),
            unsaved=tuple(sorted((lost for one in outcomes for lost in one.unsaved), key=lambda lost: lost.first_offset)),
            changed=next((one.changed for one in outcomes if one.changed), None),
            files=tuple(sorted(one.output for one in outcomes if one.output)),
        )

    @property
    def found_all(self) -> bool:
        """Whether as many records were found as the audit counted, saved or not."""
        was_read = all(lost.code in _READ for lost in self.unsaved)
        return not was_read or self.cut.record_count is None or self.header_records == self.cut.record_count


_OF_REPLAY = ("topic", "partition", "console", "console_records", "encoded", "encoded_records", "duplicates", "unsendable")
_READ = ("bad-crc", "bad-records", "records-beyond-limit")  # of batches whose headers were read


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRecords:
    """One salvage. `partitions` name their replay files by the paths in the folder.

    `uncompared`: topic, partition and broker of followers of which the run cannot say what is cut, with their verdict.
    """

    run_id: str
    cluster_id: str
    folder: str
    cuts: tuple[SavedCut, ...]
    partitions: tuple[ReplayOutcome, ...]
    uncompared: tuple[tuple[tuple[str, int, int], str], ...]
    before: tuple[RemovedBefore, ...]
    asked_for: tuple[str, ...]
    unread_folders: tuple[str, ...]
    reader_config: str

    @property
    def saved(self) -> int:
        """Records that were saved, of all cuts."""
        return sum(one.record_count for one in self.cuts)

    @property
    def replayed(self) -> int:
        """Records in the replay files."""
        return sum(one.console_records + one.encoded_records for one in self.partitions)

    @property
    def kept_back(self) -> Counter[str]:
        """Saved records that are kept back, by reason; those that were asked for are in the replay files all the same."""
        found: Counter[str] = Counter()
        for one in self.cuts:
            found.update(dict(one.kept_back))
        return found

    @property
    def unsaved(self) -> list[tuple[LogCut, UnsavedRange]]:
        """Every range that was not saved."""
        return [(one.cut, lost) for one in self.cuts for lost in one.unsaved]

    @property
    def exit_code(self) -> int:
        """Whether everything that the run's cuts remove was saved, and the run knows of every follower what that is."""
        is_all = not (self.unsaved or self.uncompared or self.unread_folders) and all(one.found_all for one in self.cuts)
        return ALL_SAVED if is_all else NOT_ALL_SAVED

    def as_json(self) -> dict[str, object]:
        """All of it, for programs."""
        return {
            "exit_code": self.exit_code,
            "records_saved": self.saved,
            "records_to_replay": self.replayed,
            "kept_back": dict(sorted(self.kept_back.items())),
            "cuts": [{**asdict(one), "found_all": one.found_all, "kept_back": dict(one.kept_back)} for one in self.cuts],
            "replay": [{name: getattr(one, name) for name in _OF_REPLAY} for one in self.partitions],
            "uncompared": [
                {"topic": topic, "partition": partition, "broker_id": broker, "verdict": verdict}
                for (topic, partition, broker), verdict in self.uncompared
            ],
            "removed_before": [asdict(one) for one in self.before],
            "unread_folders": list(self.unread_folders),
        }


_LISTED = 1000  # rows of a table; salvage.json has all
_SHOWN = 10
_LEGAL_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
WHY_KEPT_BACK = {
    KeptBack.ON_LEADER: "the leader has the record: at the same offset, or as the producer's retry (`on_leader`, `resent_offset`)",
    KeptBack.ABORTED: "its transaction was aborted: nobody was to read it",
    KeptBack.OPEN: "its transaction has no marker in this replica's log: nobody knows here whether it would have been committed",
    KeptBack.BELOW_LOG_START: "the leader's log starts above it: retention, or somebody who deleted records, has passed it",
    KeptBack.LEADER_UNKNOWN: "the inputs have no records of the leader: it may have the record, or a newer one of its key",
    KeptBack.NEWER_ON_LEADER: "the leader has a newer record of its key (`newer_offset`): a replay would roll that value back",
}


def summary(saved: SavedRecords) -> str:
    """What the command prints at its end."""
    lines = [*_first(saved), ""]
    lost = saved.unsaved
    for cut, one in lost[:_SHOWN]:
        lines.append(
            f"  not saved: {cut.name} broker {cut.broker_id}, offsets {one.first_offset}..{one.last_offset}: {one.detail}; {one.remedy}"
        )
    if len(lost) > _SHOWN:
        lines.append(f"  and {len(lost) - _SHOWN} more ranges: SALVAGE.md")
    lines += [f"  {line}" for line in _doubts(saved)]
    if saved.cuts:
        lines.append(f"read {saved.folder}/SALVAGE.md before you replay anything")
    return "\n".join(map(visible, lines)).rstrip("\n") + "\n"


def _first(saved: SavedRecords) -> Iterator[str]:
    if not saved.cuts:
        yield f"No truncation is known in run {saved.run_id}, cluster {saved.cluster_id}: nothing was saved."
        return
    partitions = len({one.cut.name for one in saved.cuts})
    yield (
        f"Saved {_records(saved.saved)} of {count(len(saved.cuts), 'cut')} in {count(partitions, 'partition')}, "
        f"{_number(saved.replayed)} for a replay."
    )
    control = sum(one.control_count for one in saved.cuts)
    if control:
        yield f"Transaction markers are cut, too ({_number(control)}): control records are no records of users, and are not saved."
    for reason, kept in sorted(saved.kept_back.items()):
        where = "replayed, as asked for" if reason in saved.asked_for else "kept back"
        yield f"{_number(kept)} {where}: {reason}"
    duplicates = sum(one.duplicates for one in saved.partitions)
    if duplicates:
        yield f"{_number(duplicates)} were held by several brokers, and are replayed once."


def _doubts(saved: SavedRecords) -> Iterator[str]:
    for one in saved.cuts:
        if not one.found_all:
            yield (
                f"{one.cut.name} broker {one.cut.broker_id}: its batches count {one.header_records} records, the audit counted "
                f"{one.cut.record_count}: the files are not those that were audited; audit again"
            )
    if saved.uncompared:
        names = ", ".join(
            f"{topic}-{partition} broker {broker} ({verdict})" for (topic, partition, broker), verdict in saved.uncompared[:_SHOWN]
        )
        more = f" and {len(saved.uncompared) - _SHOWN} more" if len(saved.uncompared) > _SHOWN else ""
        yield f"of {count(len(saved.uncompared), 'follower')} the run cannot say what would be cut: {names}{more}"
    for folder in saved.unread_folders[:_SHOWN]:
        yield f"not read: {folder}"


def document(saved: SavedRecords) -> str:
    """SALVAGE.md."""
    parts = [
        ["# Records saved from cut replicas", "", f"Run {shown(saved.run_id)} of cluster {shown(saved.cluster_id)}.", ""],
        [f"- {plain(line)}" for line in (*_first(saved), *_doubts(saved))],
        _cuts(saved),
        _unsaved(saved),
        _before(saved),
        _kept_back(saved),
        _transactions(saved),
        *((_replay(saved), _reading()) if saved.cuts else ()),
    ]
    return "\n".join("\n".join(map(visible, part)) + "\n" for part in parts if part)


def _cuts(saved: SavedRecords) -> list[str]:
    if not saved.cuts:
        return []
    lines = ["## What was cut, and saved", "", "Offsets are those of the broker's replica, both inclusive.", ""]
    lines += [
        "| partition | broker | leader | verdict | offsets | records cut | saved | markers | not saved |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one in saved.cuts[:_LISTED]:
        cut = one.cut
        already = " (cut since: this copy is all there is)" if cut.already_truncated else ""
        counted = "not known" if cut.record_count is None else _number(cut.record_count)
        cells = (
            cell(shown(cut.name)),
            cut.broker_id,
            cut.leader_id,
            cut.verdict + already,
            f"{cut.first_offset}..{cut.end_offset - 1}",
            counted,
        )
        lost = _lost(one)
        lines.append("| " + " | ".join(map(str, (*cells, _number(one.record_count), _number(one.control_count), lost))) + " |")
    if len(saved.cuts) > _LISTED:
        lines.append(f"\n{len(saved.cuts) - _LISTED} more are in salvage.json.")
    return lines


def _lost(one: SavedCut) -> str:
    if not one.unsaved:
        return "0"
    counts = [lost.record_count for lost in one.unsaved]
    known = sum(count for count in counts if count is not None)
    return _number(known) if None not in counts else f"{_number(known)} or more"


def _unsaved(saved: SavedRecords) -> list[str]:
    lost = saved.unsaved
    if not lost:
        return ["## What could not be saved", "", "Nothing: every record of every cut of this run is in the files."] if saved.cuts else []
    lines = [
        "## What could not be saved",
        "",
        "| partition | broker | offsets | records | why | what to do | file |",
        "|---|---|---|---|---|---|---|",
    ]
    for cut, one in lost[:_LISTED]:
        count = "not known" if one.record_count is None else _number(one.record_count)
        cells = (
            cell(shown(cut.name)),
            str(cut.broker_id),
            f"{one.first_offset}..{one.last_offset}",
            count,
            plain(one.detail),
            plain(one.remedy),
            cell(shown(one.path)),
        )
        lines.append("| " + " | ".join(cells) + " |")
    if len(lost) > _LISTED:
        lines.append(f"\n{len(lost) - _LISTED} more are in salvage.json.")
    return lines


def _before(saved: SavedRecords) -> list[str]:
    if not saved.before:
        return []
    lines = [
        "## Removed before the files were copied",
        "",
        "Brokers logged that they removed committed records; no copy of theirs has them any more.",
        "",
    ]
    for one in saved.before[:_LISTED]:
        offsets = f"{one.first_offset}..{one.end_offset - 1}"
        lines.append(
            f"- {partition_shown(one.topic, one.partition)} broker {one.broker_id}, offsets {offsets} ({shown(one.path)} line {one.line})"
        )
    return lines


def _kept_back(saved: SavedRecords) -> list[str]:
    found = saved.kept_back
    if not found:
        return []
    lines = ["## Saved, and not for the replay", "", "All of them are in `records/`, with the reason in the column `kept_back`.", ""]
    for reason in KeptBack:
        if found[reason]:
            option = (
                "" if reason is KeptBack.ON_LEADER else f" Replay them all the same: `--replay-also {reason}`, into another `--output`."
            )
            option = " They are in the replay files, as asked for." if reason in saved.asked_for else option
            lines.append(f"- `{reason}`, {_records(found[reason])}: {WHY_KEPT_BACK[reason]}.{option}")
    unsendable = sum(one.unsendable for one in saved.partitions)
    if unsendable:
        lines.append(f"- {_records(unsendable)} with a header whose name is not UTF-8: no client can send them again.")
    return lines


def _transactions(saved: SavedRecords) -> list[str]:
    lines = []
    for one in saved.cuts:
        if one.transactions:
            told = ", ".join(f"{_number(count)} {state}" for state, count in one.transactions)
            below = (
                f"; {_records(one.begun_below_cut)} belong to transactions of which a part lies below the cut, and stays"
                if one.begun_below_cut
                else ""
            )
            lines.append(f"- {shown(one.cut.name)} broker {one.cut.broker_id}: {told}{below}")
    return ["## Records of transactions", "", "A replay sends them outside of any transaction.", "", *lines[:_LISTED]] if lines else []


def _replay(saved: SavedRecords) -> list[str]:
    if not saved.replayed:
        return ["## Replay", "", "There is nothing to replay."]
    lines = [
        *("## Replay", ""),
        "First let the brokers come back and the followers truncate; then replay, once. A replayed record is a new one: it gets a new",
        "offset and, by the console producer, a new timestamp and the partition that its key hashes to (the old one, if producers used",
        "Kafka's default partitioner and the topic has as many partitions as then; a record without a key goes to any partition).",
        "Consumers that read the lost records before will read them again.",
        "",
        "Of each partition the records are in the order in which they were written. `.console.txt` holds all up to the first one that",
        "the console producer cannot read (line feeds, bytes that are no UTF-8); from there on they are in `.base64.jsonl`. Replay",
        "the first file, then the second one.",
        "`--sync` stops at the first record that is refused; without it the tool logs that, and continues. Tried with the tools of Kafka",
        "3.9 and 4.3, whatever the brokers run.",
        "",
        "```sh",
        f"cd -- {shlex.quote(saved.folder)}",
    ]
    encoded = False
    for one in [one for one in saved.partitions if one.console or one.encoded][:_LISTED]:
        lines += _commands(one, saved.reader_config)
        encoded = encoded or one.encoded is not None
    lines.append("```")
    if encoded:
        lines += ["", "`replay_base64.py` is in docs/salvaging.md: it sends each record to its partition, with its timestamp."]
    return lines


def _commands(one: ReplayOutcome, reader_config: str) -> Iterator[str]:
    if not _LEGAL_TOPIC.fullmatch(one.topic):
        count = _records(one.console_records + one.encoded_records)
        yield f"# {visible(one.topic)!r} is not a topic that Kafka allows: {count} cannot be replayed"
        return
    if one.console:
        yield (
            f"kafka-console-producer.sh --bootstrap-server HOST:PORT {' '.join(option('--topic', one.topic))} --sync "
            f"--reader-config {reader_config} < {shlex.quote(one.console)}   # {_records(one.console_records)}"
        )
    if one.encoded:
        yield f"python3 replay_base64.py HOST:PORT {shlex.quote(one.encoded)}   # {_records(one.encoded_records)}"


def _reading() -> list[str]:
    return [
        *("## Read the records", ""),
        '`records/` is Parquet, one file for each segment: `spark.read.parquet("records")`, `pyarrow.parquet.read_table("records")`.',
        "docs/salvaging.md names the columns.",
    ]


def _records(count: int) -> str:
    return f"{_number(count)} record{'' if count == 1 else 's'}"


def _number(count: int) -> str:
    return f"{count:,}"
