"""A connection to a cluster with bounded waiting: each broker is asked separately, and one that does not answer is not asked again.

What kafka-python's admin client would raise as a whole, because one broker is away, stays the matter of that broker here. The requests and
their versions are the library's, and so is the network.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import kafka.errors as kafka_errors
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from replica_audit.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A part of the answer that is missing. `broker` is the one that did not answer, None if no single one is at fault.

    `harmless`: brokers of such an age never tell it, so nothing is partial.
    """

    what: str
    why: str
    broker: int | None = None
    harmless: bool = False

    def sentence(self) -> str:
        """Return a sentence for a person."""
        where = f" (broker {self.broker})" if self.broker is not None else ""
        return f"{self.what}{where}: {self.why}"

    def as_json(self) -> dict[str, Any]:
        """Return the entry of the JSON document."""
        return {"what": self.what, "why": self.why, "broker": self.broker}


BOOTSTRAP = "bootstrap-0"  # the library's name of the first address
_LARGEST_ANSWER = 256 << 20
_ADDRESS = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:,\[\]]+):([0-9]{1,5})")
_PREFIX = re.compile(r"(?:\[Error -?\d+\] |\w+Error: )*")  # the library's names of classes, once for each time it passed the error on
_PAUSE_S = 0.02
_NO_RETRY = 1 << 30  # a backoff in ms that no run outlasts
# Not answered at all, so no question is worth a second wait.
_LATE = (kafka_errors.KafkaTimeoutError, kafka_errors.RequestTimedOutError)
_SILENT = (kafka_errors.KafkaConnectionError, kafka_errors.NodeNotReadyError, kafka_errors.UnknownBrokerIdError, OSError, ValueError)
_REFUSED = (kafka_errors.SaslAuthenticationFailedError, kafka_errors.UnsupportedSaslMechanismError)


class Unanswered(Exception):
    """Why a broker did not answer a question, as the rest of a sentence. `lasting`: it will answer no other one either."""

    def __init__(self, reason: str, *, lasting: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.lasting = reason, lasting


class Brokers:
    """The brokers of one cluster. A context manager.

    `cluster_id` and `alive`, the ids of the brokers that the cluster holds for alive, are known once entered. `unreachable` says why
    by broker.

    Args:
        addresses: HOST:PORT of brokers to begin with; the first that answers counts.
        settings: of `client_properties.read`.
        timeout_s: how long an answer may take.
    """

    def __init__(self, addresses: Iterable[str], settings: Mapping[str, Any], timeout_s: float) -> None:
        self._addresses, self._settings = list(addresses), dict(settings)
        self._timeout_ms = max(1, int(timeout_s * 1000))
        self.cluster_id: str | None = None
        self.alive: dict[int, Any] = {}
        self.controller_id = -1
        self.unreachable: dict[int, str] = {}
        # each failure is told below; the library would tell it several times, and at DEBUG what it sends, passwords among it
        logging.getLogger("kafka").setLevel(logging.CRITICAL + 1)

    def __enter__(self) -> Self:
        reasons = []
        for address in self._addresses:
            try:
                self._begin(address)
            except Unanswered as none:
                self._close()
                reasons.append(f"{address}: {none.reason}")
            else:
                return self
        raise UsageError(f"no broker answered: {'; '.join(reasons)}. Check --bootstrap-server and --command-config")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._close()

    def _begin(self, address: str) -> None:
        configs = {
            **self._settings,
            "bootstrap_servers": [address],
            "request_timeout_ms": self._timeout_ms,
            "socket_connection_setup_timeout_ms": self._timeout_ms,
            "socket_connection_setup_timeout_max_ms": self._timeout_ms,
            "reconnect_backoff_ms": _NO_RETRY,
            "reconnect_backoff_max_ms": _NO_RETRY,
            "receive_message_max_bytes": _LARGEST_ANSWER,
        }
        self._net = NetworkSelector(**configs)
        self._manager = KafkaConnectionManager(self._net, **configs)
        answer = self._ask(BOOTSTRAP, MetadataRequest(topics=MetadataRequest.NO_TOPICS, allow_auto_topic_creation=False))
        self._manager.cluster.update_metadata(answer)
        self.cluster_id, self.controller_id = getattr(answer, "cluster_id", None), answer.controller_id
        self.alive = {broker.node_id: broker for broker in answer.brokers}

    def _close(self) -> None:
        self._manager.close()
        self._net.close()

    # --------------------------------------------------------------------------------------------------------- asking

    @property
    def reachable(self) -> list[int]:
        """Brokers that are alive and have not failed to answer, ascending."""
        return [broker for broker in sorted(self.alive) if broker not in self.unreachable]

    def ask(self, broker: int, request: Any) -> Any:
        """Ask one broker.

        Raises:
            Unanswered: it does not answer in time, or not this.
        """
        answer = self.ask_each({broker: request})[broker]
        if isinstance(answer, Unanswered):
            raise answer
        return answer

    def ask_each(self, requests: Mapping[int, Any]) -> dict[int, Any]:
        """Ask several brokers at once, each its own question. Returns by broker the answer, or `Unanswered`."""
        found: dict[int, Any] = {broker: Unanswered(why, lasting=True) for broker, why in self.unreachable.items() if broker in requests}
        asked = {broker: request for broker, request in requests.items() if broker not in found}
        found |= self._manager.run(self._gathered, asked)
        for broker, answer in found.items():
            if isinstance(answer, Unanswered) and answer.lasting:
                self.unreachable[broker] = answer.reason
        return found

    def ask_any(self, request: Any) -> Any:
        """Ask brokers in ascending order until one answers.

        Raises:
            Unanswered: nobody did; the reason is the last one's.
        """
        last = Unanswered("no broker answers", lasting=True)
        for broker in self.reachable:
            try:
                return self.ask(broker, request)
            except Unanswered as none:
                last = none
        raise last

    def api_versions(self) -> dict[int, Any]:
        """What each broker can be asked, or `Unanswered`; whoever is unreachable is known from then on."""
        request = {"client_software_name": "replica-audit", "client_software_version": "0"}
        return self.ask_each({broker: ApiVersionsRequest(**request) for broker in self.alive})

    def _ask(self, node: str, request: Any) -> Any:
        answer = self._manager.run(self._gathered, {node: request})[node]
        if isinstance(answer, Unanswered):
            raise answer
        return answer

    async def _gathered(self, requests: Mapping[Any, Any]) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        sent = {}
        for node, request in requests.items():
            try:
                await self._unthrottled(node)
                sent[node] = self._manager.send(request, node_id=node, request_timeout_ms=self._timeout_ms)
            except kafka_errors.KafkaError as error:
                found[node] = _unanswered(error, request, self._timeout_ms)
        for node, future in sent.items():
            try:
                # the second that it has more is for the library to say what was late
                found[node] = await self._manager.wait_for(future, self._timeout_ms + 1000)
            except (kafka_errors.KafkaError, OSError, ValueError) as error:
                found[node] = _unanswered(error, requests[node], self._timeout_ms)
        return found

    async def _unthrottled(self, node: Any) -> None:
        """Wait while a quota makes a connection pause (KIP-219): the library would refuse to send."""
        deadline = time.monotonic() + self._timeout_ms / 1000
        while self._manager.get_connection(node).paused and time.monotonic() < deadline:
            await self._net.sleep(_PAUSE_S)


def _unanswered(error: Exception, request: Any, timeout_ms: int) -> Unanswered:
    if isinstance(error, kafka_errors.IncompatibleBrokerVersion):
        return Unanswered(f"it is too old for {request.name.removesuffix('Request')}")
    if isinstance(error, _LATE):
        return Unanswered(f"no answer within {timeout_ms / 1000:g} s", lasting=True)
    said = _PREFIX.sub("", " ".join(str(error).split()))
    if "ECONNREFUSED" in said:
        return Unanswered("connection refused", lasting=True)
    if "socket disconnected" in said:  # often before the library has read the broker's reason
        return Unanswered(
            "it closed the connection, as brokers do after a failed login, or if security.protocol does not fit the listener", lasting=True
        )
    if isinstance(error, _REFUSED):
        return Unanswered(f"authentication failed: {said.rpartition(': ')[2]}", lasting=True)
    return Unanswered(said or type(error).__name__, lasting=isinstance(error, _SILENT))


def error_name(code: int) -> str:
    """An error code of an answer as Kafka names it; empty for 0."""
    kind = kafka_errors.for_code(code)
    return "" if kind is kafka_errors.NoError else str(getattr(kind, "message", None) or kind.__name__)


def addresses(text: str) -> list[str]:
    """Split HOST:PORT[,HOST:PORT…].

    Raises:
        UsageError: it is none.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    for part in parts:
        match = _ADDRESS.fullmatch(part)
        if match is None or not 0 < int(match[1]) < 1 << 16:
            raise UsageError(f"--bootstrap-server {part!r}: not HOST:PORT, such as broker-1.example.com:9092")
    if not parts:
        raise UsageError("--bootstrap-server: give HOST:PORT of at least one broker")
    return list(dict.fromkeys(parts))
