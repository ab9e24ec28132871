"""One process at a time makes a run: which one, told by the run's rows of `audit_runs`, and how another takes its place.

Two things keep the rows of two processes apart, and neither is a lock that a killed process could leave behind:

- The attempt. A run is begun by a commit to `audit_runs` that carries the run's id and the next attempt's number as Delta's application
  transaction. Of several that carry the same number Delta lets one through; the others conflict with it, or are skipped.
- The fence. Every commit of the attempt to another table carries, likewise, when the attempt began. What an earlier attempt still sends
  after a later one has written is skipped, so a process that was taken for dead, and was not, cannot add to the rows of its successor.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import TracebackType

from replica_audit.engine.releases import add_tag, cancel, remove_tag
from replica_audit.errors import UsageError
from replica_audit.rows import AUDIT_RUNS, TABLES
from replica_audit.rows.arrow import nullable_columns
from replica_audit.storage.warehouse.attempts import RUNNING, Attempt, attempt_of, held_here, is_held, this_process
from replica_audit.storage.warehouse.faults import is_conflict
from replica_audit.storage.warehouse.place import warehouse_place
from replica_audit.storage.warehouse.tables import DeltaWarehouse

SIGN_EVERY_SECONDS = 300.0
_CANCEL_EVERY_SECONDS = 0.5
_CLAIMS = 40  # each number tried is twice the one before
_MICROSECOND = timedelta(microseconds=1)
_OF_ATTEMPT = nullable_columns(AUDIT_RUNS, ("status", "attempt", "holder", "started_at", "alive_at"))


class Hold:
    """A run that this process makes. While entered it shows that the process lives; it ends what another process has taken over."""

    def __init__(self, warehouse: DeltaWarehouse, run_id: str, attempt: Attempt, *, replaces: bool, every_seconds: float) -> None:
        """As `take` gives it: `replaces` is whether the tables may hold rows of an attempt before."""
        self.run_id, self.attempt, self.replaces = run_id, attempt, replaces
        self._warehouse, self._every = warehouse, every_seconds
        self._spark, self._tag = warehouse.spark, f"replica-audit:{run_id}"
        self._lost = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)

    def complete(self) -> Attempt:
        """The attempt as it is written last. No sign of life follows."""
        self._silence()
        return replace(self.attempt, status="complete")

    def confirm(self) -> None:
        """Make sure, at the end, that what was written counts.

        Raises:
            UsageError: another process has taken the run over.
        """
        now = latest_attempt(self._warehouse, self.run_id)
        if not self.attempt.is_same(now):
            raise UsageError(_taken_over(self.run_id, now))

    def __enter__(self) -> Hold:
        """Begin to show that this process lives."""
        held_here.add(self._key)
        add_tag(self._spark, self._tag)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop; a failure that the loss of the run brought about is told as that."""
        self._silence()
        remove_tag(self._spark, self._tag)
        held_here.discard(self._key)
        if self._lost and isinstance(error, Exception):
            raise UsageError(_taken_over(self.run_id, latest_attempt(self._warehouse, self.run_id))) from None

    @property
    def _key(self) -> tuple[str, str, datetime]:
        return self._warehouse.location, self.run_id, self.attempt.started_at

    def _silence(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=30)

    def _live(self) -> None:
        while not self._stop.wait(self._every):
            try:
                self._lost = not _show_life(self._warehouse, self.run_id, self.attempt)
            except Exception as error:  # noqa: BLE001 - what is wrong with the warehouse the run itself will meet, and tell
                self._lost = is_conflict(error) and not self.attempt.is_same(latest_attempt(self._warehouse, self.run_id))
            if self._lost:
                break
        while self._lost and not self._stop.wait(_CANCEL_EVERY_SECONDS):  # no job may be running yet
            cancel(self._spark, self._tag)


def take(
    warehouse: DeltaWarehouse,
    run_id: str,
    write: Callable[[Attempt, bool], None],
    *,
    started_at: datetime,
    take_over: bool = False,
    every_seconds: float = SIGN_EVERY_SECONDS,
) -> Hold:
    """Begin a run, if no other process makes it.

    Args:
        warehouse: where its tables are, all of them there.
        run_id: the run.
        write: writes the rows of `audit_runs` of an attempt, replacing rows of the run or not.
        started_at: when the run began, UTC.
        take_over: begin it also if another process seems to make it.
        every_seconds: how often to show that this process lives.

    Raises:
        UsageError: another process makes it; says which one and since when.
    """
    before = latest_attempt(warehouse, run_id)
    if before is not None:
        if not take_over and is_held(warehouse.location, run_id, before):
            raise UsageError(_held(run_id, before))
        started_at = max(started_at, before.started_at + _MICROSECOND)
    number = before.number + 1 if before else 1
    for _claim in range(_CLAIMS):
        attempt = Attempt(number=number, started_at=started_at, status=RUNNING, holder=this_process(), alive_at=datetime.now(UTC))
        key = (warehouse.location, run_id, started_at)
        held_here.add(key)
        got = False
        try:
            write(attempt, before is not None)
            now = latest_attempt(warehouse, run_id)
            got = attempt.is_same(now)
        finally:
            if not got:
                held_here.discard(key)
        if got:
            replaces = number > 1 or before is not None or _has_rows(warehouse, run_id)
            return Hold(warehouse, run_id, attempt, replaces=replaces, every_seconds=every_seconds)
        if now is not None:
            raise UsageError(_held(run_id, now))
        number *= 2  # the rows of earlier attempts were deleted, their numbers are still known
    raise UsageError(f"--run-id {run_id}: table audit_runs takes no row of it; give another --run-id")


def _has_rows(warehouse: DeltaWarehouse, run_id: str) -> bool:
    """Whether tables hold rows of a run that `audit_runs` does not know: a power cut took its row there, or a restoration."""
    if warehouse_place(warehouse.location) is None:
        return False
    return any(warehouse.tables.count(table.name, run_id=run_id) for table in TABLES if table is not AUDIT_RUNS)


def latest_attempt(warehouse: DeltaWarehouse, run_id: str) -> Attempt | None:
    """The latest attempt at a run; None if there is none."""
    if not warehouse.tables.has(AUDIT_RUNS.name):  # as if there were no attempt, if it were read
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{warehouse.location}: {AUDIT_RUNS.name}")
    # a table that an older version made lacks columns: they are null
    rows = warehouse.tables.columns(AUDIT_RUNS.name, _OF_ATTEMPT, run_id=run_id).to_pylist()
    found = [attempt_of(row) for row in rows]  # one for each cluster
    return max(found, key=lambda attempt: (attempt.number, attempt.started_at), default=None)


def _show_life(warehouse: DeltaWarehouse, run_id: str, attempt: Attempt) -> bool:
    """Write down that the holder lives; False if the run is another's by now."""
    if not attempt.is_same(latest_attempt(warehouse, run_id)):
        return False
    return bool(warehouse.sign(run_id, attempt.number, datetime.now(UTC)))


def _held(run_id: str, attempt: Attempt) -> str:
    alive = f", last sign of life {_shown(attempt.alive_at)}" if attempt.alive_at else ""
    return (
        f"--run-id {run_id} is held by {attempt.holder} since {_shown(attempt.started_at)}{alive}; wait until it ends, "
        "give another --run-id, or give --take-over if you know that the process is gone"
    )


def _taken_over(run_id: str, attempt: Attempt | None) -> str:
    by = f"by {attempt.holder} at {_shown(attempt.started_at)}" if attempt else "and its rows of audit_runs were deleted"
    return f"--run-id {run_id} was taken over {by}: what this process found does not count"


def _shown(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"
