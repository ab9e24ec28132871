"""The folder of a salvage: one run, one cluster, never another one's; what a killed salvage left in it is gone on with."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from replica_audit.errors import OutputError, UsageError
from replica_audit.files.locations import StoredPath, real_path
from replica_audit.formats.salvage.saved_file import UNFINISHED
from replica_audit.own_folder import open_anew, open_no_link, refuse_foreign, refuse_shared
from replica_audit.storage.inputs.folders import location

STATE, DOCUMENT, RECORDS, REPLAY, READER = "salvage.json", "SALVAGE.md", "records", "replay", "console-producer.properties"
_FORMAT = 1
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,149}")
_LONGEST = 120


def file_name(topic: str, partition: int) -> str:
    """How files of a partition begin: `TOPIC-N` where Kafka allows the name and it is not long; else with all that is odd encoded."""
    if _PLAIN.fullmatch(topic):
        return f"{topic}-{partition}"
    encoded = quote(topic.encode("utf-8", "surrogatepass"), safe="").replace(".", "%2E")
    if len(encoded) > _LONGEST:  # a percent sign is in no plain name, so none is met
        encoded = f"{encoded[:_LONGEST]}%{hashlib.sha256(topic.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
    return f"{encoded}-{partition}"


class SalvageOutput:
    """The folder, made or gone on with, and locked while it is entered."""

    def __init__(self, folder: Path, identity: dict[str, object], inputs: Iterable[Path]) -> None:
        """Look whether the folder can be used; nothing is made.

        Args:
            folder: as given.
            identity: what makes two salvages the same one.
            inputs: folders that nothing may be written to.

        Raises:
            UsageError: it lies in one of them, or holds something else.
        """
        self.folder, self._identity = folder, {"format": _FORMAT, **identity}
        self.records, self.replay = folder / RECORDS, folder / REPLAY
        refuse_input(folder, inputs)
        self._check()

    def _check(self) -> None:
        folder, shown = self.folder, f"--output {self.folder}"
        try:
            if not folder.exists() and not folder.is_symlink():
                return
            if not folder.is_dir():
                raise UsageError(f"{shown}: not a directory; give one that is empty or not there yet")
            names = {one.name for one in folder.iterdir()}
        except OSError as error:
            raise UsageError(f"{shown}: {error.strerror}; give a directory that can be written") from None
        if not names - {f".{STATE}{UNFINISHED}"}:
            return
        if STATE not in names:
            raise UsageError(
                f"{shown}: holds other files ({', '.join(sorted(names)[:3])}); give a directory that is empty or not there yet"
            )
        made = self._made_for()
        differing = [name for name, value in self._identity.items() if made.get(name) != value]
        if differing:
            told = ", ".join(f"{name} {made.get(name)!r} and not {self._identity[name]!r}" for name in differing)
            raise UsageError(f"{shown}: holds another salvage, of {told}; give another directory")

    def _made_for(self) -> dict[str, object]:
        try:
            found = json.loads((self.folder / STATE).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            found = None
        if not isinstance(found, dict):
            raise UsageError(f"--output {self.folder}: {STATE} cannot be read; give another directory")
        made = found.get("made_for")
        return made if isinstance(made, dict) else {}

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Make the folder, or go on with it; nobody else does so meanwhile.

        Raises:
            UsageError: another process is at it.
            OutputError: it cannot be written.
        """
        with writing(self.folder):
            self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            refuse_shared(f"--output {self.folder}: its folder", self.folder.absolute().parent)
            for folder in (self.folder, self.records, self.replay):
                folder.mkdir(mode=0o700, exist_ok=True)
                refuse_foreign(f"--output {self.folder}", folder)
                refuse_shared(f"--output {self.folder}", folder)
            lock = open_no_link(self.folder)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(
                    f"--output {self.folder}: another salvage is writing to it; wait for it, or give another directory"
                ) from None
            with writing(self.folder):
                for folder in (self.folder, self.records, self.replay):
                    for left in folder.glob(f".*{UNFINISHED}"):
                        left.unlink()
                if not (self.folder / STATE).exists():
                    self.write(STATE, [json.dumps({"made_for": self._identity, "complete": False}, indent=2), "\n"])
            yield
        finally:
            os.close(lock)

    def write(self, name: str, pieces: Sequence[str]) -> Path:
        """Write a small file that is about the salvage as a whole, so that a reader finds the old one or the new one.

        Raises:
            OutputError: it cannot be written.
        """
        path = self.folder / name
        made = path.with_name(f".{path.name}{UNFINISHED}")
        with writing(path):
            try:
                with os.fdopen(open_anew(made), "w", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
                    stream.writelines(pieces)
                    stream.flush()
                    os.fsync(stream.fileno())
                made.replace(path)
            finally:
                with suppress(OSError):
                    made.unlink(missing_ok=True)
        return path

    def conclude(self, told: dict[str, object]) -> None:
        """Write down what came of it."""
        self.write(STATE, [json.dumps({"made_for": self._identity, "complete": True, **told}, indent=2), "\n"])


def refuse_input(folder: Path, inputs: Iterable[str | Path]) -> None:
    """Refuse an output that lies in an input, or is one.

    Raises:
        UsageError: it does.
    """
    if isinstance(folder, StoredPath) or "://" in str(folder):
        raise UsageError(
            f"--output {folder}: give a directory of this machine, or one that all executors share; copy it to a store afterwards"
        )
    target = Path(real_path(folder.expanduser().absolute()))
    for given in inputs:
        path = location(given) if isinstance(given, str) else given
        if isinstance(path, StoredPath):
            continue
        place = Path(real_path(path.absolute()))
        if target == place or place in target.parents:
            raise UsageError(f"--output {folder}: lies in {given}, and nothing may be written there; give a directory outside of it")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say what cannot be written.

    Raises:
        OutputError: in the place of OSError.
    """
    try:
        yield
    except OSError as error:
        remedy = "free some space, or give an --output that can be written; a salvage that is started again continues"
        if isinstance(error, FileExistsError):
            remedy = "move it away, then start the salvage again, which writes it again"
        raise OutputError(f"{error.filename or path} cannot be written: {error.strerror or error}; {remedy}") from error
