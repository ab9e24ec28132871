"""A whole cluster: started, told what to do, and ended, with everything that it wrote in one directory."""

from __future__ import annotations

import atexit
import base64
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError, UnknownBrokerIdError

from tests.kafka_lab.jars import class_path, java
from tests.kafka_lab.node import Node, State
from tests.kafka_lab.process import free_ports
from tests.kafka_lab.settings import SESSION_S, jvm_flags, logging_flag, server_properties

CONTROLLER_ID = 100
_SESSION_BY_STARTS = 2.0
_HANGS_AFTER_S = 600.0
_STARTS = 3  # of a node that ends while the laboratory starts
_SHOWN = 1500  # characters of a log's end
T = TypeVar("T")
# A registration begins fenced; of a change 1 fences, -1 ends that, 0 leaves it.
_REGISTRATION = re.compile(
    r"Replayed (?:initial )?RegisterBrokerRecord .*?broker (\d+):|RegistrationChangeRecord\(brokerId=(\d+),.*? fenced=(1|-1),"
)


class LabError(Exception):
    """The brokers did not do what they were told within the time."""


def wait_until(what: str, ask: Callable[[], T | None], timeout_s: float = _HANGS_AFTER_S, pause_s: float = 0.2) -> T:
    """Ask until the answer is true; errors of a client that finds nobody count as no answer.

    Raises:
        LabError: it was not within the time.
    """
    deadline, last = time.monotonic() + timeout_s, ""
    while time.monotonic() < deadline:
        try:
            if answer := ask():
                return answer
        except (KafkaError, OSError) as error:
            # a client's first metadata may lack the controller that it names
            if isinstance(error, KafkaError) and not error.retriable and not isinstance(error, UnknownBrokerIdError):
                raise
            last = f" ({type(error).__name__}: {error})"
        time.sleep(pause_s)
    raise LabError(f"not within {timeout_s:.0f} s: {what}{last}")


def _uuid() -> str:
    """An id as Kafka writes it; none begins with a hyphen, which a command would take for an option."""
    return "A" + base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")[1:]


class Lab:
    """A controller and brokers 1, 2, …; a context manager that ends them and removes the directory.

    `session_s`: how long a broker may give no sign of life until the controller fences it, known once entered.

    Args:
        line: of Kafka, `4.3` or `3.9`.
        brokers: how many.
        log_dirs: of each broker.
        overrides: settings of the brokers.
        parent: where the temporary directory is made; None: where the system makes them.
    """

    def __init__(
        self,
        line: str = "4.3",
        *,
        brokers: int = 3,
        log_dirs: int = 1,
        overrides: Mapping[str, object] | None = None,
        parent: Path | None = None,
    ) -> None:
        self.line, self.cluster_id, self.session_s = line, _uuid(), SESSION_S
        self.class_path = class_path(line)
        self.root = Path(tempfile.mkdtemp(prefix="kafka-lab-", dir=parent))
        self.scratch = self.root / "tmp"
        self.scratch.mkdir()
        self.flags = [*jvm_flags(self.scratch), logging_flag(line, self.root), "-cp", self.class_path]
        atexit.register(self.close)
        ports = free_ports(brokers + 1)
        ids = [CONTROLLER_ID, *range(1, brokers + 1)]
        nodes = [self._node(node, port, ports[0], log_dirs, overrides or {}) for node, port in zip(ids, ports, strict=True)]
        self.controller, self.brokers = nodes[0], {node.node_id: node for node in nodes[1:]}

    def _node(self, node: int, port: int, controller_port: int, log_dirs: int, overrides: Mapping[str, object]) -> Node:
        folder = self.root / ("controller" if node == CONTROLLER_ID else f"broker-{node}")
        directories = [folder / f"data-{number}" for number in range(1 if node == CONTROLLER_ID else log_dirs)]
        for directory in directories:
            directory.mkdir(parents=True)
        properties = folder / "server.properties"
        properties.write_text(server_properties(node, port, (CONTROLLER_ID, controller_port), directories, overrides))
        command = [java(), *self.flags, "kafka.Kafka", str(properties)]
        return Node(node, port, folder, command, directories)

    def __enter__(self) -> Self:
        try:
            self._format()
            self.controller.start()
            for broker in self.brokers.values():
                broker.start()
            self._wait_for_the_brokers()
        except BaseException:
            self.close()
            raise
        return self

    def _wait_for_the_brokers(self) -> None:
        """Until all are registered. One that ended, as where the controller was slow, is started again."""

        def are_registered() -> bool:
            for node in (self.controller, *self.brokers.values()):
                if node.has_ended:
                    if len(node.starts) == _STARTS:
                        raise LabError(f"{node.folder.name} ended {_STARTS} times: {node.said()[-_SHOWN:]}")
                    node.state = State.DOWN
                    node.start()
            return self.registered() == set(self.brokers)

        try:
            wait_until("all brokers are registered", are_registered)
        except LabError as error:
            said = "\n".join(f"{node.folder.name}: {node.said()[-_SHOWN:]}" for node in (self.controller, *self.brokers.values()))
            raise LabError(f"{error}\n{said}") from None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End every process at once, and remove the directory. Harmless if done before."""
        for node in [*self.brokers.values(), self.controller]:
            node.kill()
        shutil.rmtree(self.root, ignore_errors=True)
        atexit.unregister(self.close)

    def _format(self) -> None:
        properties, began = self.controller.folder / "server.properties", time.monotonic()
        self.tool("kafka.tools.StorageTool", "format", "--cluster-id", self.cluster_id, "--config", str(properties))
        # where a JVM starts slowly, brokers that are alive are as late with their signs of life
        self.session_s = max(SESSION_S, (time.monotonic() - began) * _SESSION_BY_STARTS)
        with properties.open("a") as stream:
            stream.write(f"broker.session.timeout.ms={self.session_s * 1000:.0f}\n")
        for broker in self.brokers.values():
            for directory in broker.log_dirs:
                # what the tool writes for a broker: it has no more to begin with
                text = f"version=1\ncluster.id={self.cluster_id}\nnode.id={broker.node_id}\ndirectory.id={_uuid()}\n"
                (directory / "meta.properties").write_text(text)

    def tool(self, main_class: str, *arguments: str) -> str:
        """Run one of Kafka's own tools. Returns what it prints."""
        made = subprocess.run(
            [java(), *self.flags, main_class, *arguments], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
        if made.returncode:
            raise LabError(f"{main_class} ended with {made.returncode}: {made.stdout[-500:]}{made.stderr[-500:]}")
        return made.stdout

    # ------------------------------------------------------------------------------------------------- asking brokers

    @property
    def up(self) -> list[Node]:
        """The brokers whose processes run."""
        return [broker for broker in self.brokers.values() if broker.state is State.UP]

    @property
    def bootstrap(self) -> list[str]:
        """Addresses of the brokers that run."""
        return [broker.address for broker in self.up]

    def ask(self, question: Callable[[KafkaAdminClient], T]) -> T:
        """Ask with a client of its own: one that is kept goes on to ask brokers that are gone.

        Repeated for a while where a broker cannot be reached: a dead one is known to the others until its session ends.
        """
        return wait_until("a broker answers", lambda: (self._ask(question),))[0]

    def _ask(self, question: Callable[[KafkaAdminClient], T]) -> T:
        client = KafkaAdminClient(bootstrap_servers=self.bootstrap, bootstrap_timeout_ms=10_000, request_timeout_ms=10_000)
        try:
            return question(client)
        finally:
            client.close()

    def registered(self) -> set[int]:
        """The brokers that are not fenced, by the last word of the controller's log: there may be no broker to ask, or only frozen ones."""
        last = {int(broker or registered): fenced == "-1" for registered, broker, fenced in _REGISTRATION.findall(self.controller.said())}
        return {broker for broker, is_unfenced in last.items() if is_unfenced}

    def partitions(self, *topics: str) -> dict[tuple[str, int], dict[str, Any]]:
        """What the metadata says: leader_id, leader_epoch, replica_nodes, isr_nodes… by topic and partition."""
        described = self.ask(lambda client: client.describe_topics(list(topics) or None))
        return {(topic["name"], one["partition_index"]): one for topic in described for one in topic["partitions"]}

    # ------------------------------------------------------------------------------------------------------ changing

    def wait_for(
        self, what: str, topics: Iterable[str], holds: Callable[[dict[str, Any]], bool], timeout_s: float = _HANGS_AFTER_S
    ) -> None:
        """Wait until something holds for every partition of some topics."""
        wait_until(what, lambda: (found := self.partitions(*topics)) and all(map(holds, found.values())), timeout_s)

    def wait_in_sync(self, *topics: str, timeout_s: float = _HANGS_AFTER_S) -> None:
        """Wait until every replica is in sync."""
        self.wait_for("every replica is in sync", topics, lambda one: set(one["isr_nodes"]) == set(one["replica_nodes"]), timeout_s)

    def wait_back_in_sync(
        self, leader: int, known: dict[tuple[str, int], dict[str, Any]], but: Container[tuple[str, int, int]] = ()
    ) -> None:
        """Wait until the brokers that came back are in sync with a leader.

        Args:
            leader: of every partition that has one.
            known: what `partitions` said before they came back: one that was frozen goes on for a while to say what was true before that.
            but: topic, partition and broker of replicas that are not waited for.
        """
        up = {broker.node_id for broker in self.up}

        def holds() -> bool:
            now = self.partitions(*{topic for topic, _ in known})
            return now.keys() == known.keys() and all(
                one["leader_id"] == known[key]["leader_id"]
                and one["leader_epoch"] >= known[key]["leader_epoch"]
                and all(broker in one["isr_nodes"] or (*key, broker) in but for broker in up & set(one["replica_nodes"]))
                for key, one in now.items()
                if known[key]["leader_id"] == leader
            )

        wait_until("every replica is back in sync", holds)

    def wait_registered(self, *expected: int, timeout_s: float = _HANGS_AFTER_S) -> None:
        """Wait until exactly these brokers are not fenced."""
        wait_until(f"brokers {sorted(expected)} and no others are registered", lambda: self.registered() == set(expected), timeout_s)
