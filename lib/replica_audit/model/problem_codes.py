"""Codes of input problems that leave something of the input unread, or only partly read: a run with one of them proves nothing clean."""

from __future__ import annotations

from replica_audit.model.replicas import MISLEADING_INDEX

NOT_READ_WHOLE = frozenset(
    {
        # a whole input
        "no-such-path",
        "not-a-directory",
        "nothing-recognised",
        "no-replicas",
        "one-broker-of-several",
        # a file or a folder
        "cannot-read",
        "link-outside",
        "too-large",
        "too-many-folders",
        "malformed",  # a small file, a metadata file, a text
        "not-as-written",  # a checkpoint of offsets
        "log-start-beyond-log-end",
        "incomplete",  # a metadata log
        "bad-records",
        "malformed-record",
        "incomplete-collection",
        "no-segments",
        "unusable-value",
        # whose it is, is not known: left out, or a guess
        "unknown-broker",
        "unknown-replica",
        "missing-meta-properties",
        "cluster-id-mismatch",
        "two-copies-of-a-broker",
        "directory-id-of-two-brokers",
        "segments-outside-a-replica",
        "misplaced",
        # texts of kafka-dump-log and of brokers' logs
        "dump-truncated",
        "dump-malformed",
        "unusable-dump",
        "impossible-epoch",
        "server-log-of-another-broker",
        "line-cut",
        "unusable-log",
        # what a broker reads by it is not what the log holds
        MISLEADING_INDEX,
    }
)
"""The audit would have used it. Not here is what a verdict tells by itself, and what no verdict rests on (`hidden-folder`, `packed`)."""
