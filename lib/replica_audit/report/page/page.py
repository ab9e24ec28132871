"""The page as HTML: templates filled in, everything escaped, nothing fetched, and no script or style but its own allowed to run."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import NamedTuple
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from replica_audit.errors import visible
from replica_audit.protocol.verdict.verdict import SEVERITIES, Verdict
from replica_audit.report.document import Sentence
from replica_audit.report.facts.explanation import Explained
from replica_audit.report.facts.run_report import Finding, PartitionPlace
from replica_audit.report.page.page_data import PageData, for_script, rows_json
from replica_audit.report.page.partition import Section, anchors, command, pieces, section
from replica_audit.report.page.plain_words import MEANINGS, counted, headline, number, verdict_counts
from replica_audit.report.sections.offline import elect, in_sync
from replica_audit.report.text.blocks import broker_notes, checks, meaning
from replica_audit.report.text.findings_text import acknowledged_lines, acknowledged_title, cut, news_lines, news_title, no_longer_lines
from replica_audit.rows.findings import RunFinding
from replica_audit.rows.pairs import ReplicaVerdict

BUDGET = 1_950_000  # bytes of the page beyond which no more partitions are drawn
_STATIC_ROWS = 50
_WHERE = 6


class _Row(NamedTuple):
    """A finding in the page's static table."""

    finding: Finding
    status: str
    anchor: str
    cluster: str


def worst_partitions(data: PageData, most: int) -> list[PartitionPlace]:
    """The partitions that nobody leads, unless their cluster was shut down, then those of the worst findings, each once."""
    offline = [_place(one.cluster_id, one) for one in data.report.offline if not one.cluster_stopped]
    others = [_place(one.cluster_id, one) for one in data.report.others]
    worst = [_place(finding.cluster_id, finding.row) for finding in data.report.findings]
    return list(dict.fromkeys([*offline[: most // 2], *worst, *others]))[:most]


def _place(cluster_id: str, row: RunFinding | ReplicaVerdict) -> PartitionPlace:
    return PartitionPlace(cluster_id=cluster_id, topic=row.topic, partition=row.partition)


def render(data: PageData, keys: Sequence[PartitionPlace], explain: Callable[[PartitionPlace], Explained]) -> str:
    """The page.

    Args:
        data: the run.
        keys: the partitions to draw, worst first; as many as the page's size allows are.
        explain: everything that is known of one of them.
    """
    report = data.report
    several = len(report.clusters) > 1
    labels = {cluster.cluster_id: cluster.label if several else "" for cluster in report.clusters}
    names = [(labels.get(f.cluster_id, f.cluster_id), f"{f.row.topic}-{f.row.partition}") for f in report.findings]
    anchor_of = anchors([*names, *((labels.get(key.cluster_id, key.cluster_id), key.name) for key in keys)])
    rows = [
        _Row(finding, status, anchor_of[name], name[0])
        for finding, status, name in zip(report.findings[:_STATIC_ROWS], data.statuses, names, strict=False)
    ]
    listing = rows_json(data)
    style, script = _own("page.css"), _own("page.js")
    environment = _environment()
    sections = (section(report, explain(key), anchor_of[labels[key.cluster_id], key.name], labels[key.cluster_id]) for key in keys)
    first = next(sections, None)
    whole = environment.get_template(
        "page.html.j2"
    ).render(
        data=data,
        report=report,
        head=headline(data),
        verdicts=[(verdict, str(SEVERITIES[Verdict(verdict)]), total) for verdict, total in verdict_counts(data).items()],
        labels=labels,
        meanings=[(verdict, MEANINGS[verdict]) for verdict in verdict_counts(data)],
        anchor=lambda row: anchor_of.get((labels.get(row.cluster_id, row.cluster_id), f"{row.topic}-{row.partition}")),
        positions=sum(cluster.affected_positions for cluster in report.clusters),
        rows=rows,
        listing=Markup(listing),  # noqa: S704 - for_script made it harmless
        page_facts=Markup(for_script(_page_facts(data))),  # noqa: S704
        meaning=meaning(report),
        brokers=tuple(broker_notes(report)),
        news=news_lines(report),
        news_title=news_title(report),
        acknowledged=acknowledged_lines(report),
        acknowledged_title=acknowledged_title(report),
        no_longer=no_longer_lines(report),
        style=Markup(style),  # noqa: S704 - the project's own
        script=Markup(script),  # noqa: S704
        sections=_Place(),
        where=list(
            dict.fromkeys(
                [
                    *((anchor_of[labels.get(key.cluster_id, key.cluster_id), key.name], key.name) for key in keys),
                    *((row.anchor, f"{row.finding.row.topic}-{row.finding.row.partition}") for row in rows),
                ]
            )
        )[:_WHERE],
        first=_advice(first),
    )
    before, _mark, after = whole.partition(_Place.MARK)
    room = BUDGET - len(whole.encode())
    drawn: list[str] = []
    template = environment.get_template("partition.html.j2")
    for made in chain([first] if first is not None else [], sections):
        text = template.render(section=made, first=not drawn, number_of_section=len(drawn))
        room -= len(text.encode())
        if room < 0 and drawn:
            break
        drawn.append(text)
    return f"{before}{''.join(drawn)}{after}"


def _advice(first: Section | None) -> str:
    """What to do first in the worst partition: choose a leader where there is none, the least loss first."""
    if first is None:
        return ""
    if len(first.offline) > 1:
        return f"{first.offline[0]} Smallest loss: {first.offline[1]}."
    return next((f"{block.label.strip()}: {block.text}" for block in first.to_do if isinstance(block, Sentence)), "")


class _Place:
    """Where the partitions' sections go: they are put in one by one, as long as there is room."""

    MARK = "<!-- sections -->"

    def __html__(self) -> str:
        return self.MARK


def _page_facts(data: PageData) -> dict[str, object]:
    """What the script needs beside the rows: the beginning of the command that explains a partition."""
    report = data.report
    start, _partition = command(report, "", "t", 0).split(" --partition ")
    return {"explain": start, "several": len(report.clusters) > 1}


@cache
def _own(name: str) -> str:
    """A file of this package."""
    return (files(__package__) / "templates" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """A text's digest as a content security policy names it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache  # to compile the templates takes longer than to fill them in
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader(str(__package__)),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    made.globals["hash_of"] = _hash
    made.filters |= {
        "n": number,
        "pieces": pieces,
        "counted": counted,
        "checks": lambda cluster: tuple(checks(cluster)),
        "href": lambda anchor: f"#{quote(visible(anchor), safe='/')}",
        "u": lambda value: f"{value:g}",
        "heading": lambda cell: cell.replace("-\n", "").replace("\n", " "),
        "utc": _utc,
        "cut": cut,
        "elect": elect,
        "in_sync": in_sync,
        "spoken": lambda verdict: verdict.replace("_", " "),
    }
    return made


def _shown(value: object) -> object:
    """What a template puts in: texts with what a reader cannot see, or is misled by, as escapes."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _utc(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


__all__ = ["BUDGET", "Section", "render", "worst_partitions"]
