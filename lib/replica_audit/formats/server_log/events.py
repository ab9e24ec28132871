"""A broker's own server.log: the lines that tell what became of a replica, of any Kafka version from 0.10.2 on.

Sources: the messages of AbstractFetcherThread, ReplicaFetcherThread, AbstractFetcherManager, Partition, Log or UnifiedLog, LogLoader and
LogManager in 0.10.2 to 4.2. Messages are known wherever they stand in a line, so any layout will do, and one that wraps lines in JSON.
Lines of the threads that move a replica to another log directory are left out: they tell of the copy.

Not seen is a message that a layout breaks over lines, and what the loggers' levels leave out: the leader's answers are logged at DEBUG
before 3.1, changes of role by state.change.logger, which by default has a file of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import BinaryIO

from replica_audit.formats.server_log.log_lines import LogLine, telling_lines, time_in
from replica_audit.model import UNDEFINED_EPOCH, LoggedVersions
from replica_audit.protocol.comparison.observed import EventKind, LogEvent, millis_of

_AROUND = 1500  # how far from its first telling words a message is looked for
_SHOWN = 400

# Every message has one of these and few other lines do. What a fetcher says begins with its name; in a stack trace it is without.
_WORDS = (
    *(b"ReplicaFetcher", b"runcating ", b" starts at ", b"Completed load of", b"RECOVERING", b"processing data for"),
    *(b"monotonic update of high watermark", b"log truncation is not allowed", b"UNCLEAN partition", b"No broker in ISR is alive"),
)
_OF_A_COPY = (b"ReplicaAlterLogDirs", b"future replica")
_MESSAGES = {
    EventKind.FETCHER_TRUNCATION: (
        r"Truncating partition <TP> with TruncationState\(offset=<offset>, completed=(?P<complete>true|false)\) due to leader epoch and "
        r"offset .{0,200}?leaderEpoch=<answered_epoch>, endOffset=<answered_end_offset>",
    ),
    EventKind.HIGH_WATERMARK_TRUNCATION: (
        r"Truncating partition <TP> (?:with TruncationState.{0,60}? due )?to local high watermark <offset>",
        r"replied with an unknown offset in <TP>\. (?:The initial fetch offset|High watermark) <offset> will",
    ),
    EventKind.MORE_ROUNDS: (
        r"replied with epoch <answered_epoch> unknown to the \w+ for <TP>\. Will truncate to <offset> and send another",
    ),
    EventKind.EPOCH_RESPONSE: (
        r"epoch <answered_epoch> below any \w+'s tracked epochs for <TP>\. The leader's offset only <answered_end_offset> will",
        r"The leader's offset <answered_end_offset> will be used for truncation in <TP>\.",
        r"replied with an offset <answered_end_offset> >= the follower's log end offset <log_end_offset> in <TP>\. No truncation needed",
    ),
    EventKind.NO_EFFECT: (
        r"Log partition=<TP>, dir=<DIR>\] Truncating to <offset> has no effect as the largest offset in the log is <log_end_offset>",
        r"Truncating <TP> to <offset> has no effect as the largest offset in the log is <log_end_offset>",
    ),
    EventKind.LOG_TRUNCATION: (
        r"Log partition=<TP>, dir=<DIR>\] Truncating to offset <offset>",
        r"Truncating log <TP> to offset <offset>",
    ),
    EventKind.BELOW_HIGH_WATERMARK: (r"Truncating <TP> to offset <offset> below high watermark <high_watermark>",),
    EventKind.HIGH_WATERMARK_FELL: (
        r"Log partition=<TP>, dir=<DIR>\] Non-monotonic update of high watermark from (?!<RESTARTED>)"
        r"\(offset=<high_watermark>,? ?segment=\[[^\]]{1,45}\]\) to \(offset=<offset>,? ?segment=\[(?!-1)",
    ),
    EventKind.TRUNCATION_REFUSED: tuple(
        r"log truncation is not allowed for \w+ " + name + r", [Cc]urrent leader(?: \d+)?'s latest offset <offset> is less than "
        r"replica(?: \d+)?'s latest offset <log_end_offset>"
        for name in (r"<TP>", r"\[<TP,>\]")
    ),
    EventKind.UNCLEAN_ELECTION: (
        r"UNCLEAN partition change for <TP>(?: with topic ID \S{1,60})?: (?:.{0,900}?[ ,])?leader: -?\d+ -> <leader_id>"
        r"(?:, .{0,200}?leaderEpoch: \d+ -> <leader_epoch>)?(?:.{0,400}?, elr: \[(?P<elr>[\d, ]{0,400})\] -> )?",
        r"No broker in ISR is alive for <TP>\. Elect leader <leader_id> from live",
        r"No broker in ISR is alive for \[<TP,>\]\. Elect leader <leader_id> from live",
    ),
    EventKind.OUT_OF_RANGE_RESET: (
        r"partition <TP> (?:reset its fetch offset )?from <log_end_offset> to current leader(?: \d+)?'s latest offset <offset>",
    ),
    EventKind.FULL_TRUNCATION: (
        r"partition <TP> (?:reset its fetch offset )?from <log_end_offset> to (?:the )?current leader(?: \d+)?'s start offset <offset>",
    ),
    EventKind.FETCHER_FAILED: (
        r"(?:occurred while|Error) processing data for partition <TP> (?:at )?offset <offset>",
        r"error processing data for partition \[<TP,>\] offset <offset>",
    ),
    EventKind.UNCLEAN_RECOVERY: (r"The topic partition <TP> was marked as RECOVERING",),
    EventKind.BECAME_FOLLOWER: (
        r"Follower <TP> (?:with topic id \S{1,60} )?starts at leader epoch <leader_epoch> from offset <log_end_offset>",
    ),
    EventKind.BECAME_LEADER: (
        r"(?<![A-Za-z0-9._-])<TP> (?:with topic id \S{1,60} )?starts at [Ll]eader [Ee]poch <leader_epoch> from offset <log_end_offset>",
    ),
    EventKind.LOADED: (
        r"Completed load of Log\(dir=<DIR>[/\\]+<TP>, .{0,400}?logEndOffset=<log_end_offset>\)",
        r"Log partition=<TP>, dir=<DIR>\] Completed load of log with .{0,80}?log end offset <log_end_offset>",
        r"Completed load of log <TP> with .{0,80}?log end offset <log_end_offset>",
    ),
    EventKind.RECOVERY_TRUNCATION: (
        r"Log(?:Loader)? partition=<TP>, dir=<DIR>\] Corruption found in segment \d+, truncating to offset <offset>",
        r"Corruption found in segment \d+ of log <TP>, truncating to offset <offset>",
    ),
}
_NUMBERS = {"offset", "log_end_offset", "answered_epoch", "answered_end_offset", "leader_epoch", "high_watermark", "leader_id"}
_GROUPS = {
    "TP": r"(?P<topic>[A-Za-z0-9._-]{1,249})-(?P<partition>\d{1,9})(?!\d)",
    "TP,": r"(?P<topic>[A-Za-z0-9._-]{1,249}),(?P<partition>\d{1,9})",
    "DIR": r"(?P<log_dir>.{0,4096}?)",
    # both ends are at the beginning of a segment without batches: a log that was emptied, and starts again elsewhere
    "RESTARTED": r"\(offset=(?P<was>\d{1,18}),? ?segment=\[(?P=was):0\]\) to "
    r"\(offset=(?P<begins>\d{1,18}),? ?segment=\[(?P=begins):0\]\)",
}


def _compiled(message: str) -> tuple[bytes, re.Pattern[bytes]]:
    """The longest words of a message, and its pattern: `<NAME>` is a number, or one of the groups, that the event has under this name."""
    words = re.findall(r"[A-Za-z' ]+", re.sub(r"\(\?:[^()]*\)|<[^>]*>|\\.", "|", message))
    pattern = re.sub(r"(?<!\?P)<([\w,]+)>", lambda name: _GROUPS.get(name[1]) or rf"(?P<{name[1]}>-?\d{{1,18}})(?!\d)", message)
    return max(words, key=len).encode(), re.compile(pattern.encode())


_LEVEL = re.compile(rb"\b(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b")
_PATTERNS = tuple((kind, *_compiled(message)) for kind, messages in _MESSAGES.items() for message in messages)
_BROKER = re.compile(
    rb"(?:replicaId=|\[(?:Broker|KafkaServer|BrokerServer|BrokerLifecycleManager) id=|\bbroker=|ReplicaFetcherManager on broker "
    rb"|\bReplica )(\d{1,9})\b"
)
_LEADER = re.compile(
    rb"(?:leaderId=|\[ReplicaFetcherThread-\d{1,4}-|to current leader |Current leader is "
    rb"|Added fetcher to broker (?:BrokerEndPoint.id=)?)(\d{1,9})\b"
)
_KEY = re.compile(rb"([A-Za-z0-9._-]{1,249})-(\d{1,9})(?: -> |=)?\Z")
_ANSWER = re.compile(
    rb"topic='([A-Za-z0-9._-]{1,249})'"
    rb"|EpochEndOffset[{(](?:error=NONE|errorCode=0)(?:, partition=(\d{1,9}))?(?:, leaderEpoch=(-?\d{1,9}))?, endOffset=(-?\d{1,18})\b"
)
_ADDED = re.compile(
    rb", initOffset -?\d{1,18} to broker BrokerEndPoint\((\d{1,9}),"
    rb"| -> \(offset=-?\d{1,18}, leaderEpoch=(\d{1,9})\)"
    rb"| -> InitialFetchState\((?:[^,()]{0,60}(?:\([^()]{0,60}\))?,)?BrokerEndPoint.{0,300}?[)\]],(\d{1,9}),-?\d{1,18}\)"
)
_REMOVED = re.compile(rb"[\s,(]([A-Za-z0-9._-]{1,249})-(\d{1,9})(?![A-Za-z0-9._-])")


WriterOf = Callable[[bytes], int | None]  # the broker that wrote lines of a source


def events(
    stream: BinaryIO,
    path: str = "",
    *,
    writer_of: WriterOf = lambda _source: None,
    newest_first: bool = False,
    zone_minutes: int | None = None,
) -> Iterator[LogEvent]:
    """What a server.log tells of replicas, in the order of its lines.

    Bytes that are no text, lines of any length and everything that is not known are skipped.

    Args:
        stream: the uncompressed text, at its beginning; read once and in bounded memory.
        path: of the file, kept in the events.
        writer_of: who wrote the lines that name no broker.
        newest_first: as in the events.
        zone_minutes: how far the times of the log are ahead of UTC; None: not known.

    Raises:
        OSError: the stream cannot be read. Nothing else is raised.
    """
    told = (_told(line, event, writer_of, zone_minutes) for line, event in _of_lines(stream, path))
    yield from (event._replace(newest_first=newest_first) for event in told) if newest_first else told


def _told(line: LogLine, event: LogEvent, writer_of: WriterOf, zone_minutes: int | None) -> LogEvent:
    """The event with who wrote it, and when by UTC, where the line does not tell that itself."""
    broker = writer_of(line.source) if event.broker_id is None else event.broker_id
    of_utc = 0 if line.time and line.time == event.time else zone_minutes
    moment = millis_of(event.time) if event.time and of_utc is not None else None
    return event._replace(broker_id=broker, time_ms=None if moment is None or of_utc is None else moment - of_utc * 60_000)


def _of_lines(stream: BinaryIO, path: str) -> Iterator[tuple[LogLine, LogEvent]]:
    head, source = LogEvent(None, "", 0, EventKind.FETCHER_FAILED, "", -9, 0), b""
    for line in telling_lines(stream, _WORDS):
        around = line.content[max(0, line.at - _AROUND) : line.at + _AROUND]
        if any(words in around for words in _OF_A_COPY):
            continue
        if b"leaderEpoch response" in around:
            yield from ((line, event) for event in _answers(line.content, _blank(line, around, path)))
        elif b"ed fetcher " in around:
            yield from ((line, event) for event in _fetchers(line.content, _blank(line, around, path)))
        elif found := _found(around):
            event = _completed(_message(*found, _blank(line, around, path)))
            if event and event.broker_id is None and line.source == source and event.line - head.line <= 3 and _is_of_a_trace(line):
                event = event._replace(time=head.time, broker_id=head.broker_id, leader_id=head.leader_id)
            if event:
                yield line, event
        elif b"Error due to" in around:
            head, source = _blank(line, around, path), line.source


def _is_of_a_trace(line: LogLine) -> bool:
    """Whether a line is one of a stack trace: it has no level, and no time of its own but what is in front of all lines."""
    return _LEVEL.search(line.content) is None


def _blank(line: LogLine, around: bytes, path: str) -> LogEvent:
    """What the line says whatever its message: an event without one."""
    before = line.content[max(0, line.at - _AROUND) : line.at]
    broker, leader = _BROKER.search(around), _LEADER.search(around)
    return LogEvent(
        broker_id=int(broker[1]) if broker else None,
        topic="",
        partition=-1,
        kind=EventKind.UNCLEAN_RECOVERY,
        time=time_in(before, around) or line.time,
        line=line.number,
        byte_offset=line.byte_offset,
        leader_id=int(leader[1]) if leader else None,
        text=line.shown[:_SHOWN].decode("utf-8", "replace").rstrip(),
        path=path,
    )


def _found(around: bytes) -> tuple[EventKind, re.Match[bytes]] | None:
    matches = ((kind, pattern.search(around)) for kind, words, pattern in _PATTERNS if words in around)
    found = next(((kind, match) for kind, match in matches if match), None)
    return None if found and _is_of_the_elr(*found) else found


def _is_of_the_elr(kind: EventKind, match: re.Match[bytes]) -> bool:
    """Whether an election that the controller calls unclean is of an eligible leader replica (KIP-966), which loses nothing committed."""
    elr = match.groupdict().get("elr") if kind is EventKind.UNCLEAN_ELECTION else None
    return elr is not None and match["leader_id"] in elr.replace(b" ", b"").split(b",")


def _message(kind: EventKind, match: re.Match[bytes], blank: LogEvent) -> LogEvent:
    told = {name: value.decode("utf-8", "replace") for name, value in match.groupdict().items() if value is not None}
    numbers = {name: int(told[name]) for name in _NUMBERS & told.keys()}
    return blank._replace(
        kind=kind,
        topic=told["topic"],
        partition=int(told["partition"]),
        complete=told["complete"] == "true" if "complete" in told else None,
        log_dir=told.get("log_dir"),
        offset=numbers.get("offset"),
        log_end_offset=numbers.get("log_end_offset"),
        answered_epoch=numbers.get("answered_epoch"),
        answered_end_offset=numbers.get("answered_end_offset"),
        leader_epoch=numbers.get("leader_epoch"),
        leader_id=numbers.get("leader_id", blank.leader_id),
        high_watermark=numbers.get("high_watermark"),
    )


def _completed(event: LogEvent) -> LogEvent | None:
    """Put in what follows from the kind of message; None for one after which nothing was done."""
    match event.kind:
        case EventKind.NO_EFFECT:
            return event._replace(log_end_offset=(event.log_end_offset or 0) + 1)  # the message has the last offset
        case EventKind.HIGH_WATERMARK_TRUNCATION | EventKind.OUT_OF_RANGE_RESET:
            return event._replace(complete=True)
        case EventKind.EPOCH_RESPONSE if event.log_end_offset is None and event.answered_epoch is None:
            return event._replace(answered_epoch=UNDEFINED_EPOCH)
        case EventKind.FULL_TRUNCATION if (event.offset or 0) <= (event.log_end_offset or 0):
            return None  # until 3.5 also where the follower goes on from its own end
        case EventKind.BECAME_LEADER:
            return event._replace(offset=event.log_end_offset, leader_id=event.broker_id)
        case EventKind.LOADED | EventKind.BECAME_FOLLOWER:
            return event._replace(offset=event.log_end_offset)
    return event


def _answers(content: bytes, blank: LogEvent) -> Iterator[LogEvent]:
    """The answers in an OffsetsForLeaderEpoch response: until 2.7 by partition, later by topic and partition."""
    topic = b""
    for match in _ANSWER.finditer(content):
        if match[1]:
            topic = match[1]
            continue
        key = topic + b"-" + match[2] if match[2] else content[max(0, match.start() - 270) : match.start()]
        epoch = None if match[3] is None else int(match[3])
        event = blank._replace(kind=EventKind.EPOCH_RESPONSE, answered_epoch=epoch, answered_end_offset=int(match[4]))
        yield from _keyed(event, _KEY.search(key))


def _fetchers(content: bytes, blank: LogEvent) -> Iterator[LogEvent]:
    """The partitions that a fetcher was added for, or removed."""
    if b"ReplicaFetcherManager" not in content:
        return
    for match in _ADDED.finditer(content):
        leader, epoch = int(match[1] or blank.leader_id or 0), match[2] or match[3]
        event = blank._replace(kind=EventKind.FETCHER_ADDED, leader_id=leader, leader_epoch=int(epoch) if epoch else None)
        yield from _keyed(event, _KEY.search(content[max(0, match.start() - 270) : match.start()]))
    for match in _REMOVED.finditer(content.partition(b"Removed fetcher for partitions")[2]):
        yield from _keyed(blank._replace(kind=EventKind.FETCHER_REMOVED), match)


def _keyed(event: LogEvent, key: re.Match[bytes] | None) -> Iterator[LogEvent]:
    if key:
        yield event._replace(topic=key[1].decode(), partition=int(key[2]))


# What a broker's server.log tells of versions: the release of its jars, and the inter-broker protocol that it was configured with.
# Sources: AppInfoParser (`Kafka version: 2.4.1`, until 1.1 with a blank before the colon), AbstractConfig.logAll (a line for each
# setting).

_BLOCK = 1 << 18
_LONGEST = 200  # bytes of a match, and more
_RELEASE = re.compile(rb"Kafka version ?: (\d{1,3}\.\d[\w.+-]{0,80})")  # a vendor's with its suffix
_PROTOCOL = re.compile(rb"inter\.broker\.protocol\.version = (\d{1,3}(?:\.\d{1,3}){1,3}(?:-IV\d{1,2})?)(?![\w.-])")


def logged_versions(stream: BinaryIO, *, newest_first: bool = False) -> LoggedVersions:
    """The versions that a server.log tells last: the broker may have been upgraded while it was written.

    Args:
        stream: the uncompressed text, at its beginning; read once and in bounded memory.
        newest_first: the file has its newest line first: then the first ones count.

    Raises:
        OSError: the stream cannot be read. Nothing else is raised.
    """
    found: list[str | None] = [None, None]
    before = b""
    while chunk := stream.read(_BLOCK):
        block = before + chunk
        for place, (words, pattern) in enumerate(((b"Kafka version", _RELEASE), (b"inter.broker.protocol.version", _PROTOCOL))):
            if not newest_first or found[place] is None:
                found[place] = _version_in(block, words, pattern, newest_first=newest_first) or found[place]
        before = block[-_LONGEST:]
    return LoggedVersions(*found)


def _version_in(block: bytes, words: bytes, pattern: re.Pattern[bytes], *, newest_first: bool) -> str | None:
    at = block.find(words) if newest_first else block.rfind(words)
    while at >= 0:
        if match := pattern.match(block, at):
            return match[1].decode()
        at = block.find(words, at + 1) if newest_first else block.rfind(words, 0, at)
    return None
