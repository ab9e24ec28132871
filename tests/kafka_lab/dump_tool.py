"""Kafka's own kafka-dump-log on the laboratory's segments."""

from __future__ import annotations

import re
from pathlib import Path

from tests.kafka_lab.cluster import Lab
from tests.kafka_lab.jars import DUMP_TOOL

Row = dict[str, str]
_PAIR = re.compile(r"(\w+): (\S+)")


def dump(lab: Lab, segments: list[Path]) -> dict[Path, list[Row]]:
    """The batch lines that the tool prints, as the words behind its keys, for each segment in order."""
    printed = lab.tool(DUMP_TOOL[lab.line], "--files", ",".join(map(str, segments)))
    found: dict[Path, list[Row]] = {segment: [] for segment in segments}
    now: list[Row] = []
    for line in printed.splitlines():
        if line.startswith("Dumping "):
            now = found[Path(line.removeprefix("Dumping "))]
        elif line.startswith("baseOffset: "):
            now.append(dict(_PAIR.findall(line)))
    return found
