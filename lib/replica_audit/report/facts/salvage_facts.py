"""What was saved of the records that cuts remove, what was not, and what is for a replay: the facts of one salvage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from replica_audit.model.salvage import LogCut, RemovedBefore, UnitOutcome, UnsavedRange

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


_READ = ("bad-crc", "bad-records", "records-beyond-limit")  # of batches whose headers were read


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPartition:
    """The replay files of a partition, by their paths in the folder; None: no record is in it."""

    topic: str
    partition: int
    console: str | None
    console_records: int
    encoded: str | None
    encoded_records: int
    duplicates: int
    unsendable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRecords:
    """One salvage. `uncompared`: topic, partition and broker of followers of which the run cannot say what is cut, with their verdict."""

    run_id: str
    cluster_id: str
    folder: str
    cuts: tuple[SavedCut, ...]
    partitions: tuple[SavedPartition, ...]
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
            "replay": [asdict(one) for one in self.partitions],
            "uncompared": [
                {"topic": topic, "partition": partition, "broker_id": broker, "verdict": verdict}
                for (topic, partition, broker), verdict in self.uncompared
            ],
            "removed_before": [asdict(one) for one in self.before],
            "unread_folders": list(self.unread_folders),
        }
