"""Kafka's own Java client, driven through py4j: on 4.x its transactions raise the producer's epoch (KIP-890), as no other client's do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Self

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError, Py4JJavaError

from tests.kafka_lab.cluster import Lab, LabError
from tests.kafka_lab.node import Node
from tests.support.jvm import jvm, own_exceptions

_OPTIONS = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
_BYTES = "org.apache.kafka.common.serialization.ByteArraySerializer"
_CALL_S = 20
_COMMANDS = {"find-hanging": "FindHangingTransactionsCommand", "abort": "AbortTransactionCommand"}


class ClientError(Exception):
    """The Java client threw: the class of what it threw, and its message."""


class TransactionalProducer:
    """A producer with a transactional id, whose transactions are open until they are ended; `kill` leaves them open."""

    def __init__(self, gateway: JavaGateway, bootstrap: str, name: str, timeout_ms: int) -> None:
        self._gateway, self._record = gateway, gateway.jvm.org.apache.kafka.clients.producer.ProducerRecord
        settings = gateway.jvm.java.util.Properties()
        wanted = {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": timeout_ms,
            "key.serializer": _BYTES,
            "value.serializer": _BYTES,
            "linger.ms": 20,
            "batch.size": 900_000,
            "request.timeout.ms": 5000,
            "metadata.max.age.ms": 2000,
            "reconnect.backoff.max.ms": 500,
            "max.block.ms": _CALL_S * 1000,
            "delivery.timeout.ms": _CALL_S * 1000,
        }
        for key, value in wanted.items():
            settings.put(key, str(value))
        with _as_client_error():
            self._java = gateway.jvm.org.apache.kafka.clients.producer.KafkaProducer(settings)

    def init(self) -> None:
        """Get the producer's id and epoch; what another producer of this transactional id left open is aborted, and that one is fenced."""
        self._call("initTransactions")

    def begin(self) -> None:
        """Begin a transaction, of which no broker hears before the first record."""
        self._call("beginTransaction")

    def send(self, topic: str, partition: int, key: bytes | None, value: bytes | None, timestamp_ms: int | None = None) -> Any:
        """Send a record, of now or of another time; those of a moment are one batch of their partition. Returns the Java future."""
        with _as_client_error():
            return self._java.send(self._record(topic, partition, timestamp_ms, key, value))

    def acknowledged(self, sent: list[Any]) -> None:
        """Wait until all of it is acknowledged; a flush would wait for good where the coordinator lets the transaction not begin.

        Raises:
            ClientError: something was not, within the time.
        """
        seconds = self._gateway.jvm.java.util.concurrent.TimeUnit.SECONDS
        with _as_client_error():
            for future in sent:
                future.get(_CALL_S, seconds)

    def commit(self) -> None:
        """Commit."""
        self._call("commitTransaction")

    def abort(self) -> None:
        """Abort."""
        self._call("abortTransaction")

    def kill(self) -> None:
        """End it as a crash does: nothing is flushed, nothing aborted."""
        self._java.close(self._gateway.jvm.java.time.Duration.ZERO)

    def _call(self, name: str) -> None:
        with _as_client_error():
            getattr(self._java, name)()


@contextmanager
def _as_client_error() -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        raise ClientError(error.java_exception.toString()) from None


class JavaClient:
    """Makes producers in a JVM of its own; a context manager that ends it, and them with it."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab

        self._stack = ExitStack()
        self._complaints = lab.root / "java-client-stderr.txt"

    def __enter__(self) -> Self:
        self._stack.enter_context(own_exceptions())
        self._gateway = self._stack.enter_context(jvm(self.lab.class_path, _OPTIONS, self._complaints))
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def producer(self, name: str, *, timeout_ms: int) -> TransactionalProducer:
        """A producer of a transactional id.

        Args:
            name: the transactional id.
            timeout_ms: how long the coordinator lets a transaction be open, at most 15 minutes.
        """
        addresses = ",".join(broker.address for broker in self.lab.brokers.values())
        return TransactionalProducer(self._gateway, addresses, name, timeout_ms)

    def find_hanging(self, broker: Node, *, minutes: int) -> str:
        """What `kafka-transactions.sh find-hanging` prints of a broker.

        Args:
            broker: that is asked.
            minutes: only of transactions that were last written to longer ago.

        Raises:
            LabError: it ended the JVM, as it does when it fails.
        """
        return self.transactions_tool(broker, "find-hanging", "--broker-id", str(broker.node_id), "--max-transaction-timeout", str(minutes))

    def transactions_tool(self, broker: Node, *arguments: str) -> str:
        """What `kafka-transactions.sh` prints, its arguments parsed by its own parser.

        It is called as the tool's main method calls it, but for the exit: a JVM of its own for each question takes seconds.

        Args:
            broker: that is asked first.
            arguments: from the command's name on.

        Raises:
            LabError: it ended the JVM, as it does when it fails.
        """
        java, kafka = self._gateway.jvm.java, self._gateway.jvm.org.apache.kafka
        settings, printed = java.util.Properties(), java.io.ByteArrayOutputStream()
        settings.put("bootstrap.servers", broker.address)
        words = self._gateway.new_array(self._gateway.jvm.String, len(arguments))
        for number, word in enumerate(arguments):
            words[number] = word
        try:
            command = self._made(f"org.apache.kafka.tools.TransactionsCommand${_COMMANDS[arguments[0]]}", kafka.common.utils.Time.SYSTEM)
            parser = self._gateway.jvm.net.sourceforge.argparse4j.ArgumentParsers.newArgumentParser("kafka-transactions.sh")
            self._called(command, "addSubparser", parser.addSubparsers())
            admin = kafka.clients.admin.Admin.create(settings)
            self._called(command, "execute", admin, parser.parseArgs(words), java.io.PrintStream(printed, True))
            admin.close()
            return str(printed.toString())
        except (Py4JError, OSError) as error:
            raise LabError(f"{' '.join(arguments)}: {error}; {self._complaints.read_text()[-500:]}") from None

    def _made(self, class_name: str, *arguments: Any) -> Any:
        (constructor,) = self._gateway.jvm.java.lang.Class.forName(class_name).getDeclaredConstructors()
        constructor.setAccessible(True)
        return constructor.newInstance(self._array(arguments))

    def _called(self, target: Any, name: str, *arguments: Any) -> Any:
        (method,) = [one for one in target.getClass().getDeclaredMethods() if one.getName() == name and not one.isBridge()]
        method.setAccessible(True)
        return method.invoke(target, self._array(arguments))

    def _array(self, values: Sequence[Any]) -> Any:
        made = self._gateway.new_array(self._gateway.jvm.Object, len(values))
        for number, value in enumerate(values):
            made[number] = value
        return made
