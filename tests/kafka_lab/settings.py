"""What the laboratory's servers are configured with: everything that Kafka does once in a while it does here within a second or two."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

HEAP_MEGABYTES = 256
SESSION_S = 3.0  # longer on a slow machine

_EVERY_NODE = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "broker.heartbeat.interval.ms": 300,
    # of these two it is the controller's own that count, unless a topic says otherwise
    "unclean.leader.election.enable": "true",
    "auto.leader.rebalance.enable": "false",
    "num.network.threads": 2,
    "num.io.threads": 3,
    "background.threads": 2,
}
_BROKER = {
    "auto.create.topics.enable": "false",
    "default.replication.factor": 3,
    "offsets.topic.num.partitions": 3,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.num.partitions": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
    "group.initial.rebalance.delay.ms": 0,
    "replica.fetch.wait.max.ms": 200,
    "replica.fetch.backoff.ms": 200,
    "replica.lag.time.max.ms": 3000,
    "replica.high.watermark.checkpoint.interval.ms": 500,
    "log.flush.offset.checkpoint.interval.ms": 2000,
    "log.flush.start.offset.checkpoint.interval.ms": 1000,
    "log.initial.task.delay.ms": 500,
    "log.retention.check.interval.ms": 1000,
    "log.segment.delete.delay.ms": 1000,
    "log.cleaner.backoff.ms": 500,
    "log.cleaner.dedupe.buffer.size": 4_000_000,
    "log.index.size.max.bytes": 65_536,
    "controlled.shutdown.enable": "true",
}
_LOG4J = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
_LOG4J2 = """\
rootLogger.level=INFO
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=[%d] %p %m (%c)%n
"""


def logging_flag(line: str, folder: Path) -> str:
    """Write the logging configuration of a line of Kafka into a folder; the JVM's flag for it."""
    (folder / "log4j.properties").write_text(_LOG4J)
    (folder / "log4j2.properties").write_text(_LOG4J2)
    # log4j up to 3.9, log4j 2 from 4.0 on
    return (
        f"-Dlog4j.configuration=file:{folder}/log4j.properties" if line < "4" else f"-Dlog4j2.configurationFile={folder}/log4j2.properties"
    )


def jvm_flags(temporary: Path) -> list[str]:
    """Small, quick to start, and no file outside the given directory."""
    return [
        f"-Xmx{HEAP_MEGABYTES}m",
        "-Xms64m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",
        f"-XX:ErrorFile={temporary}/hs_err_%p.log",
        f"-Djava.io.tmpdir={temporary}",
        "-Djava.awt.headless=true",
    ]


def server_properties(node: int, port: int, controller: tuple[int, int], log_dirs: list[Path], overrides: Mapping[str, object]) -> str:
    """A server.properties.

    Args:
        node: its id.
        port: its own.
        controller: id and port of the controller; the node is the controller if the id is its own.
        log_dirs: log directories.
        overrides: settings that replace or add to those of every broker.
    """
    is_controller = node == controller[0]
    listener = "CONTROLLER" if is_controller else "PLAINTEXT"
    settings: dict[str, object] = {
        "process.roles": "controller" if is_controller else "broker",
        "node.id": node,
        "controller.quorum.voters": f"{controller[0]}@127.0.0.1:{controller[1]}",
        "listeners": f"{listener}://127.0.0.1:{port}",
        "log.dirs": ",".join(map(str, log_dirs)),
        **_EVERY_NODE,
        **({} if is_controller else {**_BROKER, **overrides}),
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())
