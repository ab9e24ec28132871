"""The options that commands share: what to audit and by which rules, where the tables are, what it costs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from replica_audit.commands.command import Option, show, tell
from replica_audit.program import shipped

if TYPE_CHECKING:
    from replica_audit.acknowledged import Acknowledgements
    from replica_audit.config import Settings


COLUMNS_HELP = """\
columns of the summary:
  #             the cluster, by its number in the list of clusters
  L>F           leader and follower; L?>F: no leader is known, compared as if L led
  DIVERGES      first offset at which the two logs differ
  TRUNCATES TO  where the follower truncates when it fetches again; start N: it empties its log and starts at N
  LOSES         truncated records; already: according to its server.log; committed: offsets that were certainly committed
                and that the leader does not have. If another replica led: records that then exist nowhere any more
  RESUMES       offset at which a group continues; policy: auto.offset.reset decides
  GONE          consumed offsets whose records no longer exist
  MISSES        offsets that a group will never read; with latest, if the policy decides
"""
"""What the heads of the tables in a summary mean, for the help of the commands that print it."""

SAMPLE = shipped("tests/data/sample")
INPUT = Option(
    flag="--input",
    help="directory with one folder per broker, or a folder of such directories, also s3a://BUCKET/PREFIX; repeatable "
    "(default: the sample data)",
    arguments={"action": "append", "metavar": "DIR"},
)
WAREHOUSE = Option(
    flag="--warehouse",
    help="where an audit wrote its tables: a directory or a URI (default: ./warehouse)",
    arguments={"default": "warehouse", "metavar": "DIR"},
)
RULES = (
    Option(
        flag="--cluster-metadata",
        help="cluster-metadata.json to use instead of the one beside the broker folders",
        arguments={"type": Path, "metavar": "FILE"},
    ),
    Option(flag="--config", help="YAML file with settings, such as conf/audit.yaml", arguments={"type": Path, "metavar": "FILE"}),
    Option(
        flag="--acknowledged",
        help="YAML file with known findings, such as conf/acknowledged.yaml: they are counted separately and do not raise "
        "the exit code, until they expire or get worse",
        arguments={"type": Path, "metavar": "FILE"},
    ),
    Option(flag="--topics", setting="topics", help="audit only topics whose whole name matches", arguments={"metavar": "REGEX"}),
    Option(
        flag="--protocol",
        setting="protocol",
        help="truncation rule: auto, high-watermark, kip-101, kip-279 or truncate-on-fetch (default: auto)",
        arguments={"metavar": "RULE"},
    ),
    Option(
        flag="--compare",
        setting="compare",
        help="how closely: epochs (checkpoints and batch headers only), content (also the bytes of batches) or records (also the "
        "records of compacted topics, key by key, and every record where the content of others differs) (default: content)",
        arguments={"metavar": "MODE"},
    ),
    Option(
        flag="--show-keys",
        setting="show_keys",
        help="with --compare records, show keys that differ as text, not only as hashes; keys may be personal data, and are stored in "
        "the tables",
        arguments={"action": "store_true"},
    ),
    Option(
        flag="--what-if-leaders",
        setting="what_if_leaders",
        help="also try every replica as the leader: what each choice would lose, ranked",
        arguments={"action": "store_true"},
    ),
    Option(
        flag="--detail",
        setting="detail",
        help="findings (default): of partitions that are proven healthy, store no rows of truncation_points and epoch_end_offsets, which "
        "only say that nothing is cut; all: store them, too",
        arguments={"metavar": "WHAT"},
    ),
    Option(
        flag="--follow-links",
        setting="follow_links",
        help="follow links that lead out of an --input, which are otherwise reported and not read: whoever could write there then chooses "
        "which files of this machine are read",
        arguments={"action": "store_true"},
    ),
    Option(
        flag="--fail-on",
        setting="fail_on",
        help="lowest severity that makes the exit code 1: critical, error or warning (default: error)",
        arguments={"metavar": "SEVERITY"},
    ),
)


def acknowledged_of(given: argparse.Namespace, on: date) -> Acknowledgements:
    """The findings that somebody knows of, as of a day.

    Raises:
        ConfigError: the file of --acknowledged is wrong.
    """
    from replica_audit import acknowledged

    return acknowledged.load(given.acknowledged, on)


def show_former_settings(given: argparse.Namespace) -> None:
    """Tell of each setting that is given and does nothing any more."""
    from replica_audit import config

    for line in config.former_settings(given.config):
        tell(line)


def settings_of(given: argparse.Namespace) -> Settings:
    """The configuration: the file's, then the environment's, then the command line's.

    Raises:
        ConfigError: one of them is wrong.
    """
    from replica_audit import config  # what takes long to import is imported only where it is used: --help must not wait for it

    return config.load(given.config, {key: value for key, value in vars(given).items() if key in config.Settings.model_fields})


COST = Option(
    flag="--cost",
    help="only list the input, and show how many bytes each mode of --compare reads and about how long that takes; no segment is read",
    arguments={"action": "store_true"},
)


def show_cost(inputs: Sequence[str], metadata: Path | None, settings: Settings) -> int:
    """Print the cost of every cluster, and of all; the exit code is 0, or 3 where an input is not counted.

    Raises:
        UsageError: the inputs contradict each other, or nothing in them can be audited.
    """
    from replica_audit.local_run import amounts_to_read
    from replica_audit.report.cost import Amount, render

    listed, problems = amounts_to_read(inputs, settings, metadata=metadata)
    not_counted = [f"{one.path}: {one.detail}. Remedy: {one.remedy}" for one in problems]
    show(render([Amount(name=cluster, **asdict(amounts)) for cluster, amounts in listed.items()], not_counted))
    return 3 if problems else 0
