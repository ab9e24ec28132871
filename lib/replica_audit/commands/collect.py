"""`collect`: what an audit needs, taken on a broker."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from replica_audit.commands import outputs
from replica_audit.commands.command import Command, Option, show, tell
from replica_audit.commands.progress_file import PROGRESS, ProgressLines, followed
from replica_audit.commands.running import TERMINATION_MESSAGE, write_ending
from replica_audit.errors import UsageError
from replica_audit.own_folder import private_files
from replica_audit.progress import TellsEvent, to_all
from replica_audit.words import count

if TYPE_CHECKING:
    from replica_audit.collect import CollectRequest, CollectResult

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMG]?)(?:i?B)?", re.IGNORECASE)
_FACTORS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhd])", re.IGNORECASE | re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST = 100 * 366 * 86400

_HELP = """\
Take from a broker's log directories what an audit needs: for every segment its runs of one epoch,
an index of its batches and digests of their content, and copies of the small files. Records stay
on the broker, except those of __cluster_metadata and, up to a limit, __consumer_offsets.

Runs on the broker, also while Kafka runs: log directories are never written to, locked or mapped, files are read
with the lowest priority, and what this reading brought into the page cache is dropped again. Neither
Spark nor Java is needed.

The collection appears as OUTPUT/broker-ID once all of it is on disk. The audit reads it as that
broker's folder: put the folders of all brokers into one directory, and give that as --input.
"""
_EXIT = """\
sizes are in bytes, or end in K, M or G (powers of 1024): 50M; durations end in s, m, h or d: 30d

exit codes:
  0    collected
  2    wrong usage, nothing to read, or the output cannot be written; there is no collection
  3    collected, but some files could not be read: they are printed, and are in manifest.json; an earlier collection
       that has them, and that --replace replaced, is kept as OUTPUT/.broker-ID.kept
  130  interrupted; 143 by SIGTERM, 129 by SIGHUP: there is no collection

examples:
  {command} --log-dir /var/lib/kafka/data --output ~/collected
  {command} --server-properties /etc/kafka/server.properties --output ~/collected --rate-limit 50M
  {command} --log-dir /data/1 --log-dir /data/2 --output /srv/nightly --replace --topics 'orders|payments'
  {command} --log-dir /var/lib/kafka/data --output /srv/nightly --replace --since /srv/nightly --verify-within 30d
"""


def _collect(given: argparse.Namespace) -> int:
    if bool(given.log_dir) == bool(given.server_properties):
        raise UsageError("give either every --log-dir of the broker, or its --server-properties")
    if given.rate_limit is not None and given.rate_limit < 1:
        raise UsageError("--rate-limit: at least one byte per second; leave it out for no limit")
    if given.verify_within is not None and given.since is None:
        raise UsageError("--verify-within: what is read is verified anyway; this is for what --since reuses")
    if given.time_limit is not None and given.verify_within is None:
        raise UsageError("--time-limit: it limits --verify-within; give that, or --rate-limit")
    outputs.check("--progress", given.progress)
    from replica_audit.collect import CollectRequest
    from replica_audit.collect.origin import origin_of, refuse_file_inside
    from replica_audit.collect.pace import lower_priority

    request = CollectRequest(
        output=given.output.expanduser(),
        log_dirs=tuple(given.log_dir or ()),
        server_properties=given.server_properties,
        broker_id=given.broker_id,
        replace=given.replace,
        rate=given.rate_limit,
        verify_crc=given.verify_crc,
        has_index=given.batch_index,
        topics=given.topics,
        group_offsets_limit=given.group_offsets_limit,
        since=given.since.expanduser() if given.since is not None else None,
        verify_within_s=given.verify_within,
        time_limit_s=given.time_limit,
        follow_links=given.follow_links,
    )
    if given.progress is not None:
        refuse_file_inside("--progress", given.progress, origin_of(request).log_dirs)
    lower_priority()
    with private_files():
        return followed(given.progress, "collect", None, lambda told: _collected(given, request, told))


def _collected(given: argparse.Namespace, request: CollectRequest, told: TellsEvent) -> int:
    from replica_audit.collect import collect

    result = collect(request, to_all(ProgressLines(tell).take, told))
    counts = result.manifest.counts
    for one in result.unread:
        tell(f"not read: {one.path}: {one.reason}")
    unread = f"; {count(counts['unread'], 'file or folder', 'files or folders')} could not be read" if counts["unread"] else ""
    collected = (
        f"collected {count(counts['segments'], 'segment')} of {count(counts['replicas'], 'replica')}, "
        f"{counts['bytes_read'] / 1e6:.1f} MB read{unread}"
    )
    tell(collected)
    if request.since is not None:
        taken, because = counts["segments_taken_over"], result.manifest.read_because
        causes = ", ".join(f"{number} {cause}" for cause, number in because.items())
        tell(f"reused: {count(taken, 'segment')}; read: {sum(because.values())}{f' ({causes})' if causes else ''}")
        tell(_checks(result))
    for line in _kept(result):
        tell(line)
    show(f"{result.folder}\n")
    kept = {} if result.kept is None else {"kept": str(result.kept.folder)}
    write_ending(given, "collect", result.exit_code, collected, counts=counts, **kept)
    return result.exit_code


def _kept(result: CollectResult) -> Iterator[str]:
    """The earlier collection that is kept, why, and what to do with it."""
    kept = result.kept
    if kept is None:
        return
    if kept.is_new:
        instead = f" instead of the one of {kept.replaces}" if kept.replaces is not None else ""
        yield f"kept{instead}: {kept.folder}, the collection of {kept.finished_at} that was replaced: it has {_of_unread(kept.has)}"
    elif kept.has:
        yield f"still kept: {kept.folder}, the collection of {kept.finished_at}: it has {_of_unread(kept.has)}"
    else:
        yield f"still kept: {kept.folder}, the collection of {kept.finished_at}: it has nothing that could not be read now"
    if kept.gone:
        yield f"not kept: the collection that was replaced, which also had {_of_unread(kept.gone)}; only one is kept"
    yield (
        f"delete {kept.folder} once nobody needs it; audits leave it out, and to audit it, move it into another folder "
        f"under the name {result.folder.name}"
    )


def _of_unread(paths: Sequence[str]) -> str:
    return f"{len(paths)} of the files or folders that could not be read; the first is {paths[0]}"


def _checks(result: CollectResult) -> str:
    """When CRCs were verified, and what there was no time for."""
    counts, oldest, never = result.manifest.counts, result.oldest_check, result.never_verified
    said = f"oldest CRC check: {oldest or 'none'}"
    if never:
        said += f"; segments of {count(never, 'replica')} were never verified"
    if counts["verification_left"]:
        size = counts["bytes_of_verification_left"] / 1e6
        said += f"; left to the next run by --time-limit: {count(counts['verification_left'], 'segment')} ({size:.1f} MB)"
    return said


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 1048576, 512K, 50M or 1.5G")
    return int(float(match[1]) * _FACTORS[match[2].upper()])


def _duration(text: str) -> int:
    match = _DURATION.fullmatch(text.strip())
    seconds = int(float(match[1]) * _SECONDS[match[2].lower()]) if match else 0
    if not 0 < seconds <= _LONGEST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 90s, 45m, 2h or 30d, of at least a second")
    return seconds


def _broker_id(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text[:11]) < 1 << 31):
        raise argparse.ArgumentTypeError(f"{text!r} is not the id of a broker")
    return int(text)


COMMAND = Command(
    name="collect",
    summary="Collect on a broker what an audit needs: scans of its segments and copies of its small files, without Spark and Java.",
    description=_HELP,
    epilog=_EXIT,
    run=_collect,
    interrupted="interrupted: nothing was collected",
    options=(
        Option(
            flag="--log-dir",
            help="log directory of the broker; repeatable, give all of them",
            arguments={"type": Path, "action": "append", "metavar": "DIR"},
        ),
        Option(
            flag="--server-properties",
            help="the broker's server.properties, to take its log directories from, instead of --log-dir",
            arguments={"type": Path, "metavar": "FILE"},
        ),
        Option(
            flag="--output",
            help="where the folder broker-ID appears; not in a log directory",
            arguments={"type": Path, "required": True, "metavar": "DIR"},
        ),
        Option(
            flag="--replace",
            help="replace an earlier collection of the broker; it is kept beside the new one if it has files that could not be read now",
            arguments={"action": "store_true"},
        ),
        Option(
            flag="--since",
            help="reuse what has not changed since an earlier collection of the broker, and read the rest: its folder broker-ID, or the "
            "--output that holds it, also the same one with --replace; if there is none yet, everything is read",
            arguments={"type": Path, "metavar": "PREVIOUS"},
        ),
        Option(
            flag="--verify-within",
            help="with --since: also verify the CRCs of what is reused, the longest unverified first, in each run a share of all bytes so "
            "that every byte is verified within this time: 30d",
            arguments={"type": _duration, "metavar": "DURATION"},
        ),
        Option(
            flag="--time-limit",
            help="with --verify-within: start no more of this verification after this time, and leave the rest to the next run: 2h",
            arguments={"type": _duration, "metavar": "DURATION"},
        ),
        Option(
            flag="--rate-limit",
            help="read at most this many bytes per second (default: unlimited)",
            arguments={"type": _size, "metavar": "SIZE"},
        ),
        Option(
            flag="--verify-crc",
            help="read every byte and report batches that do not match their CRC; without it only headers are read, which saves "
            "nothing if batches are small (default: on)",
            arguments={"action": argparse.BooleanOptionalAction, "default": True},
        ),
        Option(
            flag="--batch-index",
            help="write the headers of all batches, which show exactly what a truncation removes; without them only its offsets are known "
            "(default: on)",
            arguments={"action": argparse.BooleanOptionalAction, "default": True},
        ),
        Option(
            flag="--topics",
            help="collect only topics whose whole name matches, and the three internal ones that the audit needs",
            arguments={"default": "", "metavar": "REGEX"},
        ),
        Option(
            flag="--group-offsets-limit",
            help="copy the records of __consumer_offsets and __transaction_state up to this many bytes in all, which show the groups "
            "that are affected and how transactions ended; 0 for none (default: 2G)",
            arguments={"type": _size, "default": 2 << 30, "metavar": "SIZE"},
        ),
        Option(
            flag="--follow-links",
            help="follow links that lead out of a log directory, which are otherwise reported and not read: whoever could write there then "
            "chooses which files of this machine are copied",
            arguments={"action": "store_true"},
        ),
        Option(
            flag="--broker-id",
            help="the broker's id, if no meta.properties has it",
            arguments={"type": _broker_id, "metavar": "ID"},
        ),
        PROGRESS,
        TERMINATION_MESSAGE,
    ),
)
