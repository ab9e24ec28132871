"""No silent damage: what changes what a broker would do, or what is lost, is told.

A round mutates many partitions of one cluster, each in one way, and audits it once; what stays silent is audited again alone, where an exit
code that is not 0 tells, too. What a mutation changes is measured by `broker_view`, not by the product.

Another kind of round asks the same of a whole cluster that is damaged in several ways at once: where one has to be told, the others do not
hide it. Clusters that are audited in the same run hear nothing of it.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replica_audit.config import Settings
from replica_audit.errors import AuditError
from replica_audit.local_run import triage
from tests.mutation.accepted import why_silent
from tests.mutation.broker_view import METADATA, view
from tests.mutation.damage.all_kinds import OF_A_PARTITION, OF_ALL, OF_COLLECTIONS, OF_TEXTS, Kinds
from tests.mutation.damage.tree import Damaged, Mutation, Tree
from tests.mutation.shapes import COLLECTED, RAW, TEXT, in_shape

Row = dict[str, Any]
AT_ONCE = 24  # partitions that are damaged in one round
CLEAN = frozenset({"identical", "lagging", "consistent"})


@dataclass(frozen=True, slots=True)
class Said:
    """What an audit said: its exit code, its verdicts by follower, its findings and problems as comparable texts by partition."""

    exit_code: int
    verdicts: dict[tuple[str, int], str]
    findings: Counter[tuple[str, str]]  # (partition or "", text)
    problems: Counter[tuple[str, str]]  # (path, code and detail)
    error: str = ""
    of_others: Counter[str] = field(default_factory=Counter)  # what is said of clusters beside it
    guessed: frozenset[tuple[str, int]] = frozenset()  # followers of which no leader is known: a clean verdict is no promise then


def audited(root: Path, others: Sequence[Path] = ()) -> Said:
    """Audit a tree, in one run with others."""
    try:
        done = triage([str(root), *map(str, others)], Settings(), tell=lambda _event: None, run_id="mutation")
    except AuditError as error:
        return Said(error.exit_code, {}, Counter(), Counter(), str(error))

    beside = {json.loads((other / METADATA).read_text(encoding="utf-8"))["cluster_id"] for other in others}

    def all_rows(table: str) -> list[Row]:
        found = done.tables.dataset(table)
        return [] if found is None else found.to_table().to_pylist()

    def rows(table: str) -> list[Row]:
        return [row for row in all_rows(table) if row["cluster_id"] not in beside]

    findings = (
        (f"{row['topic']}-{row['partition']}" if row["topic"] is not None else "", f"{row['code']} {row['broker_id']}")
        for row in rows("findings")
    )
    problems = (
        (str(row["path"]).removeprefix(f"{root}/"), f"{row['code']}: {row['detail']}".replace(str(root), ""))
        for row in rows("input_errors")
    )
    of_followers = {(f"{row['topic']}-{row['partition']}", row["follower_id"]): row for row in rows("replica_verdicts")}
    verdicts = {key: row["verdict"] for key, row in of_followers.items()}
    guessed = frozenset(key for key, row in of_followers.items() if row["leader_source"] == "inferred")
    of_others = Counter(
        f"{table} {row}"
        for table in ("replica_verdicts", "findings", "input_errors")
        for row in all_rows(table)
        if row["cluster_id"] in beside
    )
    exit_code = all_rows("audit_runs")[0]["exit_code"]
    return Said(exit_code, verdicts, Counter(findings), Counter(problems), of_others=of_others, guessed=guessed)


def told(before: Said, after: Said, mutation: Mutation, *, alone: bool) -> str:
    """How a mutation was told: `finding`, `verdict`, `row`, `exit code`, or nothing."""
    partition = mutation.partition
    if alone and after.error:
        return "error"
    new = after.findings - before.findings
    if any(alone or of == partition for of, _text in new):
        return "finding"
    for (of, follower), verdict in after.verdicts.items():
        if (
            (alone or of == partition)
            and (verdict not in CLEAN or (of, follower) in after.guessed - before.guessed)
            and (before.verdicts.get((of, follower), "identical") in CLEAN or of == partition)
        ):
            return "verdict"
    names = {path for path in mutation.changes} | {
        path.rpartition("/")[0] for path in mutation.changes if "-" in path.rpartition("/")[0].rpartition("/")[2]
    }
    for path, text in after.problems - before.problems:
        if alone or path in names or (partition and (f"/{partition}/" in f"{path}/" or partition in text)):
            return "row"
    if alone and after.exit_code not in (0, before.exit_code):
        return "exit code"
    if alone and before.exit_code == 0 == after.exit_code:
        return ""
    return ""


class Place:
    """A working copy of a cluster, changed and put back."""

    def __init__(self, root: Path, folder: Path, shape: str = RAW, *, of_shape: bool = False, beside: Sequence[Path] = ()) -> None:
        """Copy the cluster. With `of_shape` it is put into its shape before anything is changed, and what it has then is changed.

        `beside`: other clusters that are audited in the same run.
        """
        name = f"{shape} changed" if of_shape else shape
        self.beside = beside
        self.of_shape, self.name = of_shape, f"{root.parent.name}/{root.name} {name}"
        if of_shape:
            root, self.shape = in_shape(shape, root, folder / name / "of" / root.parent.name / root.name), RAW
            self.kinds: Kinds = {TEXT: OF_TEXTS, COLLECTED: OF_COLLECTIONS}[shape]
        else:
            self.shape, self.kinds = shape, OF_A_PARTITION
        self.at, self.shaped = folder / name / root.parent.name / root.name, folder / f"as-{shape}"
        shutil.copytree(root, self.at, ignore=shutil.ignore_patterns("*.index", "*.timeindex", "*.snapshot", "*.txnindex"))
        self.tree = Tree({str(path.relative_to(self.at)): path.read_bytes() for path in sorted(self.at.rglob("*")) if path.is_file()})
        self.before = self.audited()
        self.views: dict[str, Any] = {}

    def audited(self) -> Said:
        """What an audit says of the copy, in its shape."""
        try:
            return audited(in_shape(self.shape, self.at, self.shaped), self.beside)
        except AuditError as error:  # a broker's folder of which nothing can be collected
            return Said(error.exit_code, {}, Counter(), Counter(), str(error))

    def with_changes(self, changes: dict[str, bytes | None]) -> Said:
        """What an audit says of the cluster with these changes."""
        for path, content in changes.items():
            target = self.at / path
            if content is None:
                target.unlink(missing_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
        emptied = {(self.at / path).parent for path, content in changes.items() if content is None}
        for folder in sorted(emptied, key=lambda one: -len(one.parts)):
            while folder != self.at and folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
                folder = folder.parent
        try:
            return self.audited()
        finally:
            for path in changes:
                target = self.at / path
                if path in self.tree.files:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(self.tree.files[path])
                else:
                    target.unlink(missing_ok=True)
                    folder = target.parent
                    while folder != self.at and folder.is_dir() and not any(folder.iterdir()):
                        folder.rmdir()
                        folder = folder.parent

    def is_neutral(self, mutation: Mutation) -> bool:
        """Whether no broker would load anything else, by the tests' own reader."""
        changed = {path: content for path, content in {**self.tree.files, **mutation.changes}.items() if content is not None}
        if self.shape == COLLECTED and mutation.kind == "directory twice":
            return True  # beside the log directories that are collected
        if self.of_shape:
            return all(
                content is not None and _words(content) == _words(self.tree.files[path]) for path, content in mutation.changes.items()
            )
        for partition in [mutation.partition] if mutation.partition else list(self.tree.homes)[:3]:
            if partition not in self.views:
                self.views[partition] = view(self.tree.files, partition)
            if view(changed, partition) != self.views[partition]:
                return False
        return True


def _words(content: bytes) -> list[list[bytes]]:
    """A text without blanks at the ends of its lines."""
    return [line.split() for line in content.splitlines()]


@dataclass(frozen=True, slots=True)
class Silent:
    """A mutation that was not told, with the seed of its round and what an audit of it alone said."""

    place: Place
    seed: int
    mutation: Mutation
    said: Said

    def __str__(self) -> str:
        """One line of it."""
        verdicts = sorted({verdict for (of, _follower), verdict in self.said.verdicts.items() if of == self.mutation.partition})
        where = f"{self.place.name} {self.mutation.partition or ''} seed {self.seed}"
        return f"{where}: {self.mutation.kind}, {self.mutation.detail} -> {verdicts} exit {self.said.exit_code}"


@dataclass(slots=True)
class Tally:
    """What came of many mutations."""

    runs: int = 0
    neutral: int = 0
    how: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    by_row_alone: Counter[str] = field(default_factory=Counter)
    silent: list[Silent] = field(default_factory=list)


def drawn(rng: random.Random, tree: Tree, kinds: Kinds, count: int) -> list[Mutation]:
    """Mutations that do not touch the same file, of one partition each."""
    partitions = [one for one in tree.homes if not one.startswith("__cluster_metadata")]
    rng.shuffle(partitions)
    mutators, weights = zip(*kinds, strict=True)
    found: list[Mutation] = []
    taken: set[str] = set()
    for partition in partitions[:count]:
        made = rng.choices(mutators, weights)[0](rng, tree, partition)
        if made and not taken & set(made.changes) and any(tree.files.get(path) != content for path, content in made.changes.items()):
            taken |= set(made.changes)
            found.append(made)
    return found


def together(rng: random.Random, tree: Tree) -> list[Mutation]:
    """A few mutations of other files each, of one partition or of several."""
    partitions = [one for one in tree.homes if not one.startswith("__cluster_metadata")]
    chosen = rng.sample(partitions, min(len(partitions), rng.choice((1, 1, 2))))
    mutators, weights = zip(*OF_A_PARTITION, strict=True)
    found: list[Mutation] = []
    for _try in range(rng.choice((2, 2, 3))):
        made = rng.choices(mutators, weights)[0](rng, tree, rng.choice(chosen))
        if made and not {path for one in found for path in one.changes} & set(made.changes):
            found.append(made)
    return found


def round_together(place: Place, seed: int, tally: Tally) -> None:
    """One round of a cluster that is damaged in several ways at once."""
    made = together(random.Random(seed), place.tree)  # noqa: S311
    if len(made) < 2:
        return
    tally.runs += 1
    changes = {path: content for one in made for path, content in one.changes.items()}
    files = place.tree.files | changes
    whole_tree = Damaged(
        Tree({path: content for path, content in files.items() if content is not None}), place.shape
    )  # which may excuse more
    if not any(not place.is_neutral(one) and not why_silent(one, place) and not why_silent(one, whole_tree) for one in made):
        tally.neutral += 1
        return
    whole = Mutation(" and ".join(sorted(one.kind for one in made)), made[0].partition, changes, "; ".join(one.detail for one in made))
    said = place.with_changes(changes)
    how = told(place.before, said, whole, alone=True)
    if not how or (said.of_others != place.before.of_others and not said.error):
        tally.silent.append(Silent(place, seed, whole, said))
    tally.how[how or "silent"] += 1


def round_of(place: Place, seed: int, tally: Tally) -> None:
    """One round."""
    rng = random.Random(seed)  # noqa: S311
    if place.kinds is OF_COLLECTIONS or (not place.of_shape and rng.random() < 0.2):
        mutators, weights = zip(*(OF_ALL if not place.of_shape else OF_COLLECTIONS), strict=True)
        made = rng.choices(mutators, weights)[0](rng, place.tree, "")
        mutations = [made] if made else []
    else:
        mutations = drawn(rng, place.tree, place.kinds, AT_ONCE)
    if not mutations:
        return
    all_at_once = (
        place.with_changes({path: content for one in mutations for path, content in one.changes.items()}) if len(mutations) > 1 else None
    )
    for mutation in mutations:
        tally.runs += 1
        if place.is_neutral(mutation):
            tally.neutral += 1
            continue
        reason = why_silent(mutation, place)
        if reason:
            tally.accepted[reason] += 1
            continue
        how = told(place.before, all_at_once, mutation, alone=False) if all_at_once and not all_at_once.error else ""
        if not how:
            said = place.with_changes(mutation.changes)
            how = told(place.before, said, mutation, alone=True)
            if how == "row" and said.exit_code == 0:
                tally.by_row_alone[mutation.kind] += 1
            if not how:
                tally.silent.append(Silent(place, seed, mutation, said))
        tally.how[how or "silent"] += 1
