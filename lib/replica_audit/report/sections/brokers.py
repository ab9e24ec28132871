"""Whether brokers may be started, in words: the first block of a summary, and the answer for one broker."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from replica_audit.errors import visible
from replica_audit.program import option
from replica_audit.protocol.verdict.partition_findings import ElectionType
from replica_audit.recovery.start_text import SAID_OF, lost_text
from replica_audit.report.facts.run_report import BrokerAnswer
from replica_audit.report.layout.paragraphs import paragraph
from replica_audit.rows.starts import OUTCOME_OF, BrokerStart, ReplicaStart, StartBecause, StartOutcome
from replica_audit.words import count

MOST = 12  # brokers that are listed one by one; of more, the safe ones are counted
_STATE = {True: "running", False: "stopped", None: "runs?"}
_SHOUTED = {
    StartOutcome.ORDER: "WAIT",
    StartOutcome.COPY_FIRST: "COPY FIRST",
    StartOutcome.REPAIR_FIRST: "REPAIR FIRST",
    StartOutcome.UNKNOWN: "UNKNOWN",
}
_LOSE = (StartBecause.TRUNCATES, StartBecause.RECOVERY_TRUNCATES, StartBecause.EMPTIES)  # told together, with what is lost
# what {n} replicas do, or are
_SAYS: dict[StartBecause, str] = {
    StartBecause.OTHER_LOSES_LESS: "would lead {n} {partition} itself, at the cost of more records than another leader",
    StartBecause.TORN_END: "{n} {log} {end} in half a batch after a clean stop: what is appended behind cannot be read",
    StartBecause.DOES_NOT_LOAD: "{n} {log} {is_} damaged",
    StartBecause.BECOMES_STRAY: "sets {n} {log} aside (-stray) and goes on without {it}",
    StartBecause.SETS_ASIDE: "nobody else holds all records of {n} of them",
    StartBecause.DELETES: "deletes {n} {log} (-delete) with records that nobody else holds",
    StartBecause.OTHERS_TRUNCATE: "leads {n} {partition} at once, and running followers truncate what it lacks: elect one of them first",
    StartBecause.CANNOT_FOLLOW: "{n} {follower} never {catch} up",
    StartBecause.STAYS_DIVERGED: "{n} {follower} {stay} diverged, and Kafka does not notice",
    StartBecause.OTHER_RECORDS: "{n} {replica} {hold} other records than the leader at the same offsets",
    StartBecause.EMPTIES: "{n} of them {end} below the leader's log start and {is_} emptied: whether the leader held the same is not known",
    StartBecause.NOT_COMPARED: "{n} {replica} could not be compared",
    StartBecause.NOT_READ: "{n} {file} or {folder} could not be read",
    StartBecause.SHORT_COPY: "{n} {copy} {end} below the high watermark",
    StartBecause.LEADER_GUESSED: "of {n} {replica} the leader is a guess",
    StartBecause.LEADER_DAMAGED: "leads {n} {partition} with a damaged log",
    StartBecause.MAY_BECOME_STRAY: "{n} {log} {lack} partition.metadata: {they} {is_} set aside, if the copy is whole",
    StartBecause.ELECTION_UNKNOWN: "nobody leads {n} {partition}, and what an election loses is not known",
    StartBecause.MISSING: "{n} {replica} {is_} not in the input",
    StartBecause.COPIED_TWICE: "the input has two copies of it",
    StartBecause.SAME_DIRECTORY_ID: "a log directory of another broker has the same directory.id",
    StartBecause.MISLED_BY_INDEX: "{n} {index} {mislead} whoever reads from it",
}
# what to give so that it is known
_WANTED: dict[StartBecause, str] = {
    StartBecause.NOT_READ: "Copy again what the input problems name.",
    StartBecause.SHORT_COPY: "Copy {it} again while the broker is stopped.",
    StartBecause.LEADER_GUESSED: "Give cluster-metadata.json (command describe-cluster).",
    StartBecause.LEADER_DAMAGED: "Copy {it} again; where the broker has the same, keep every replica.",
    StartBecause.MAY_BECOME_STRAY: "Copy partition.metadata, too, if the broker has it.",
    StartBecause.ELECTION_UNKNOWN: "Copy the other brokers' replicas of {it} first.",
    StartBecause.MISSING: "Copy its folder, too.",
    StartBecause.COPIED_TWICE: "Leave the older copy out.",
    StartBecause.SAME_DIRECTORY_ID: "Copy the meta.properties of both again.",
    StartBecause.MISLED_BY_INDEX: "Copy {it} again; if the broker has the same, do what the input problems say.",
}
_ONE_SEVERAL = {
    "partition": ("partition", "partitions"),
    "log": ("log", "logs"),
    "end": ("ends", "end"),
    "is_": ("is", "are"),
    "it": ("it", "them"),
    "they": ("it", "they"),
    "follower": ("follower", "followers"),
    "catch": ("catches", "catch"),
    "stay": ("stays", "stay"),
    "replica": ("replica", "replicas"),
    "hold": ("holds", "hold"),
    "file": ("file", "files"),
    "folder": ("folder", "folders"),
    "copy": ("copy", "copies"),
    "lack": ("lacks", "lack"),
    "index": ("index", "indexes"),
    "mislead": ("misleads", "mislead"),
}


def broker_items(starts: Sequence[BrokerStart]) -> Iterator[tuple[str, str]]:
    """What is said of each broker of a cluster, behind its number and state; of a large cluster the safe ones are counted."""
    shown = [one for one in starts if len(starts) <= MOST or one.outcome != StartOutcome.SAFE or one.leads]
    width = max((len(str(one.broker_id)) for one in shown), default=0)
    for one in shown:
        yield f"{one.broker_id:>{width}}  {_STATE[one.runs]}  ", said_of(one)
    if len(shown) < len(starts):
        yield "", f"{len(starts) - len(shown)} {'other ' if shown else ''}brokers: safe"


def broker_lines(starts: Sequence[BrokerStart]) -> list[str]:
    """The same as lines of 80 columns: what a plan begins with."""
    return [line for head, text in broker_items(starts) for line in paragraph(text, indent=0, first=head)]


def said_of(start: BrokerStart) -> str:
    """The outcome of a broker's start, why, and what is to follow."""
    outcome = StartOutcome(start.outcome)
    if outcome is StartOutcome.SAFE:
        return f"safe{_leads(start)}"
    told = "; ".join(_reasons(start))
    known = " (acknowledged)" if start.acknowledged and start.acknowledged == start.at_stake else ""
    is_copied = outcome is StartOutcome.REPAIR_FIRST and any(
        OUTCOME_OF[StartBecause(one)] is StartOutcome.COPY_FIRST for one in start.because
    )
    said = f"{'COPY, THEN REPAIR' if is_copied else _SHOUTED[outcome]}{known}: {told}{_waits(start)}{_leads(start)}"
    return ". ".join([said, *_wanted(start)])


def _wanted(start: BrokerStart) -> Iterator[str]:
    """What to do so that it is known, of a start of which it is not."""
    asked = [text.format(**_forms(start.because[one])) for one, text in _WANTED.items() if one in start.because]
    if asked:
        yield " ".join(asked)
    elif StartBecause.NOT_COMPARED in start.because and start.partitions:
        yield f"What is missing: --partition {visible(start.partitions[0])}."


def _forms(number: int) -> dict[str, str]:
    return {name: forms[number != 1] for name, forms in _ONE_SEVERAL.items()}


def _reasons(start: BrokerStart) -> Iterator[str]:
    """Every reason, those of the broker's outcome first, with its partitions."""
    ordered = [one for one in StartBecause if start.because.get(one)]
    own = [one for one in ordered if OUTCOME_OF[one] == start.outcome]
    named, truncated = _named(start), sum(start.because.get(one, 0) for one in _LOSE)
    removes = "removes" if start.because.get(StartBecause.SETS_ASIDE) else "truncates"  # what is lost counts with that
    if truncated:
        ordered = [one for one in ordered if one not in _LOSE or one is next(reason for reason in ordered if reason in _LOSE)]
    for one in sorted(ordered, key=lambda reason: reason not in own):
        is_first = bool(own) and one is own[0] and bool(named)
        if one in _LOSE:
            where = named if is_first else count(truncated, "partition")
            yield f"{removes} {_lost(start)} of {where}, which the leader does not hold"
            if start.because.get(StartBecause.EMPTIES):
                yield phrase(StartBecause.EMPTIES, start.because[StartBecause.EMPTIES])
        elif one is StartBecause.SETS_ASIDE and not truncated:
            yield f"nobody else holds {_lost(start)} of {'it' if start.because[one] == 1 else f'{start.because[one]} of them'}"
        else:
            yield f"{phrase(one, start.because[one])}{f' ({named})' if is_first else ''}"


def phrase(reason: StartBecause, number: int) -> str:
    """A reason of so many replicas, in words; not those that lose records by truncation."""
    return _SAYS[reason].format(n=number, **_forms(number))


def _named(start: BrokerStart) -> str:
    """The partitions with the broker's outcome."""
    more = start.outcomes.get(start.outcome, 0) - len(start.partitions)
    return ", ".join(map(visible, start.partitions)) + (f" and {more} more" if more > 0 else "")


def _lost(start: BrokerStart) -> str:
    known = lost_text(start.lost_records, start.lost_committed, start.lost_by_transaction)
    if not start.lost_unknown:
        return known
    return f"at least {known}" if start.lost_records else "an unknown number of records"


def _waits(start: BrokerStart) -> str:
    if not start.waits_for:
        return ""
    several = len(start.waits_for) > 1
    return f"; start it after broker{'s' if several else ''} {', '.join(map(str, start.waits_for))} lead{'' if several else 's'}"


def _leads(start: BrokerStart) -> str:
    """What it brings back; an election that the operator has to make is said to be one."""
    if not start.leads:
        return ""
    then = "it" if start.outcome == StartOutcome.SAFE else "then it"
    cleanly = start.leads - start.leads_uncleanly
    parts = []
    if cleanly:
        parts.append(f"leads {count(cleanly, 'partition')} that nobody leads, by itself")
    if start.leads_uncleanly:
        parts.append(f"is to be elected, uncleanly, for {count(start.leads_uncleanly, 'partition')} that nobody leads")
    return f"; {then} {' and '.join(parts)}"


_ANSWER: dict[StartOutcome, str] = {
    StartOutcome.SAFE: "yes",
    StartOutcome.ORDER: "not yet",
    StartOutcome.COPY_FIRST: "not before its directories are copied",
    StartOutcome.REPAIR_FIRST: "not as it is",
    StartOutcome.UNKNOWN: "nobody can tell from this input",
}
_OF_ONE: dict[StartBecause, str] = SAID_OF | {
    StartBecause.OTHER_LOSES_LESS: "leads it itself, at the cost of more records",
    StartBecause.SETS_ASIDE: "nobody else holds {lost} of it",
    StartBecause.EMPTIES: "it ends below the leader's log start, and whether the leader held the same is not known",
    StartBecause.NOT_COMPARED: "could not be compared",
    StartBecause.NOT_READ: "could not be read",
    StartBecause.SHORT_COPY: "its copy ends below the high watermark",
    StartBecause.LEADER_GUESSED: "its leader is a guess",
    StartBecause.LEADER_DAMAGED: "leads it, and its log is damaged",
    StartBecause.MAY_BECOME_STRAY: "lacks partition.metadata: set aside, if the copy is whole",
    StartBecause.ELECTION_UNKNOWN: "what an election loses is not known",
    StartBecause.MISSING: "is not in the input",
}


def render(answer: BrokerAnswer) -> str:
    """Whether a broker may be started, or restarted, what that does to each replica, and what to do, as lines of 80 columns."""
    start = answer.start
    does = "be restarted" if start.runs else "be started"
    lines = paragraph(f"May broker {start.broker_id} {does}? {_ANSWER[StartOutcome(start.outcome)].capitalize()}.", indent=0)
    lines += ["", *paragraph(said_of(start), first=f"{start.broker_id}  {_STATE[start.runs]}  "), ""]
    if answer.replicas:
        lines.append(f"What its start does to its replicas ({start.at_stake} of {start.replicas} not safe):")
        for one in answer.replicas:
            lines += paragraph(f"{visible(one.topic)}-{one.partition}: {replica_text(one)}")
        if start.at_stake > len(answer.replicas):
            lines.append(f"  and {start.at_stake - len(answer.replicas)} more: the table replica_starts has them all")
        lines.append("")
    lines += _next(answer)
    return "\n".join(lines) + f"\nExit code {answer.exit_code}: {_OF_EXIT[answer.exit_code]}.\n"


_OF_EXIT = {0: "it may", 1: "it may not, or not yet", 3: "not known"}


def _next(answer: BrokerAnswer) -> Iterator[str]:
    """What to ask next, each on a line of its own."""
    if not answer.replicas:
        return
    worst = answer.replicas[0]
    yield "Next: run the same command, without --broker, with"
    yield f"  {shlex.join(option('--partition', f'{worst.topic}-{worst.partition}'))}"
    yield "    explains the first of them"
    if any(one in answer.start.because for one in _LOSE):
        yield "  --salvage DIR"
        yield "    saves the records that would be truncated"
    yield "  --plan DIR"
    yield "    writes the steps, in their order"


def replica_start(start: ReplicaStart) -> str:
    """The outcome for one replica, and what the start of its broker does to it."""
    outcome = StartOutcome(start.outcome)
    return f"{_SHOUTED.get(outcome, 'safe')}: {replica_text(start)}"


def replica_text(start: ReplicaStart) -> str:
    """What the start of its broker does to one replica."""
    told = [_cut_of(start)] if any(one in start.because for one in _LOSE) else []
    told += [_OF_ONE[one].format(lost=_lost_of(start)) for one in map(StartBecause, start.because) if one in _OF_ONE]
    if start.election is not None:
        told.append("leads it by itself" if start.election == ElectionType.CLEAN else "is to be elected, uncleanly")
    follows = start.leader_id is not None and start.leader_id != start.broker_id
    return f"{'; '.join(told)}{f' (leader {start.leader_id})' if follows else ''}"


def _cut_of(start: ReplicaStart) -> str:
    at = "" if start.first_offset is None else f" from offset {start.first_offset} on"
    return f"truncates {_lost_of(start)}{at}, which the leader does not hold"


def _lost_of(start: ReplicaStart) -> str:
    if start.lost_records is None:
        return "an unknown number of records"
    return lost_text(start.lost_records, start.lost_committed, start.lost_by_transaction)
