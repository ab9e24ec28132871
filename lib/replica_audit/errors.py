"""What can go wrong, named for what happened.

Malformed input is data: decoders raise an `InputError`, and whoever reads files turns it into a row of `input_errors`.
Only `ConfigError`, `UsageError` and `OutputError` stop a run.
"""

from __future__ import annotations

import unicodedata


class AuditError(Exception):
    """Anything the product raises on purpose. `exit_code` is what a command ends with when nothing catches it.

    Each argument is a line: a newline in one of them is part of a name.
    """

    exit_code = 2

    def __str__(self) -> str:
        return "\n".join(map(str, self.args))

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of a stack: an error made on purpose is one sentence in a notebook, too."""
        return [f"{type(self).__name__}: {self}"]


class UsageError(AuditError):
    """The command line asks for something impossible: a bad option, two inputs of one cluster."""


class OutputError(AuditError):
    """What a command makes cannot be written: the disk is full, a directory is not the user's."""


class LostProcessError(AuditError):
    """A process that works for this one was killed. The exit code is that of a process that SIGKILL ends: trying again may help."""

    exit_code = 137


class ConfigError(AuditError):
    """The configuration file or an override names an unknown key or a bad value."""


class InputError(AuditError):
    """A file cannot be read as what it claims to be.

    Args:
        reason: what is wrong, in one sentence.
        line: the line of a text file, counted from 1; None where lines mean nothing.
        byte_offset: the byte of the file, counted from 0; None where bytes mean nothing.
    """

    def __init__(self, reason: str, *, line: int | None = None, byte_offset: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.byte_offset = byte_offset


class CheckpointError(InputError):
    """A checkpoint file that Kafka itself would refuse to load."""


class DumpLogError(InputError):
    """Text that is not, or not usably, output of kafka-dump-log."""


class SegmentError(InputError):
    """A segment whose bytes stop making sense."""


class MetadataError(InputError):
    """A cluster-metadata.json, meta.properties or partition.metadata that cannot be understood."""


def visible(text: str) -> str:
    """A text from files or brokers for a person to see: other scripts as they are, what a terminal would obey, or hide, as escapes."""
    if text.isprintable():
        return text
    obeyed = ("Cc", "Cf", "Zl", "Zp", "Cs")
    return "".join(c.encode("unicode_escape").decode("ascii") if unicodedata.category(c) in obeyed else c for c in text)
