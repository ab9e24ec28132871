"""One server of the laboratory: a controller or a broker, its directory and its process."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from tests.kafka_lab.process import kill, spawn

_ENDS_WITHIN_S = 600.0


class State(StrEnum):
    """What a node's process does."""

    UP = "up"
    FROZEN = "paused"
    DOWN = "down"


@dataclass(slots=True)
class Node:
    """A server.

    `folder` holds `data-0`…, `server.properties` and `server.log`, to which every start appends. `command` starts the server.
    """

    node_id: int
    port: int
    folder: Path
    command: list[str]
    log_dirs: list[Path]
    process: subprocess.Popen[bytes] | None = None
    state: State = State.DOWN
    starts: list[int] = field(default_factory=list)

    @property
    def log(self) -> Path:
        """The server.log."""
        return self.folder / "server.log"

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    @property
    def has_ended(self) -> bool:
        """Whether its process ended by itself."""
        return self.state is State.UP and self.process is not None and self.process.poll() is not None

    def start(self) -> None:
        """Start the process; `starts` notes where in the log its lines begin."""
        assert self.state is State.DOWN
        self.starts.append(self.log.stat().st_size if self.log.exists() else 0)
        self.process = spawn(self.command, self.log)
        self.state = State.UP

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, no marker of a clean shutdown."""
        if self.process:
            kill(self.process)
        self.state = State.DOWN

    def terminate(self) -> None:
        """SIGTERM: a controlled, clean shutdown."""
        assert self.process
        assert self.state is State.UP
        os.kill(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        self.state = State.DOWN

    def freeze(self) -> None:
        """SIGSTOP."""
        assert self.process
        os.kill(self.process.pid, signal.SIGSTOP)
        self.state = State.FROZEN

    def resume(self) -> None:
        """SIGCONT."""
        assert self.process
        os.kill(self.process.pid, signal.SIGCONT)
        self.state = State.UP

    def said(self, since: int = -1) -> str:
        """What it logged from a byte of its log on; by default since its last start."""
        begin = self.starts[since] if since < 0 else since
        with self.log.open("rb") as stream:
            stream.seek(begin)
            return stream.read().decode("utf-8", "replace")
