"""What stands before a line, or beside it in JSON, and tells where it came from: a container, a pod, a host, a file.

Prefixes of `docker compose logs` and `docker service logs`, `kubectl logs --prefix`, kubetail, stern, kail, journald and syslog, `grep` and
ansible; in JSON the names that Kubernetes, Docker, journald, ECS, CloudWatch, Loki and Google give a pod, a container, a stream, a host.
A source is a name without a meaning of its own: which broker it is, its lines tell (`log_writers`), or a number in the name.
"""

from __future__ import annotations

import re

_HEAD = 400  # bytes of a line in which its prefix is
_COLOURS = re.compile(rb"\x1b\[[\d;]*m")
_LEVEL = rb"(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL)\b"
_TIMED = rb"\d{4}-\d\d-\d\d[ T][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?"
_BEGINS = rb"(?=\[?(?:\d{4}-\d\d-\d\d[ T]|\d\d:\d\d:\d\d)|\{)"  # the line itself
_TRACE = rb"(?=\s*(?:at |Caused by: |(?:[a-z]+\.){2,}[A-Z]))"  # a line of a stack trace
_NAME = rb"[A-Za-z0-9_.-]{1,253}"
_PREFIXES = tuple(
    re.compile(pattern)
    for pattern in (
        rb"([A-Za-z0-9_.@-]{1,253}) *\|",
        rb"(?:\[?" + _TIMED + rb"\]? +)?\[(pod/" + _NAME + rb"(?:/" + _NAME + rb")?)\]",
        rb"(?:\[?" + _TIMED + rb"\]? +)?\[([A-Za-z0-9_.-]{0,200}?(?:kafka|broker)s?[-_ ]?\d{1,9}(?:[ /]" + _NAME + rb")?)\]",
        rb"(" + _NAME + rb"/" + _NAME + rb"\[" + _NAME + rb"\]): ",
        rb"(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} [ \d]\d [\d:.]{8,15}|\d{4}-\d\d-\d\dT[\d:.,+Z-]{8,24}) (?!" + _LEVEL + rb")"
        rb"(" + _NAME + rb" " + _NAME + rb")(?:\[\d{1,9}\])?: ",
        rb"(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} [ \d]\d [\d:.]{8,15} )?(" + _NAME + rb"(?:[ /]" + _NAME + rb")?)\[\d{1,9}\]: ",
        rb"<\d{1,3}>1 \d{4}-\d\d-\d\dT[\d:.,+Z-]{8,24} (" + _NAME + rb" " + _NAME + rb") ",
        rb"(?!" + _LEVEL + rb")(?=[^:\[{]*\d)((?:" + _NAME + rb" (?:\xe2\x80\xba )?){2,3}(?<!INFO )(?<!WARN )(?<!ERROR )(?<!DEBUG ))"
        rb"(?=\[?\d{4}-\d\d-\d\d[ T]|\{)",
        rb"(?=[^:]*\d)([A-Za-z0-9_./@-]{1,300}?):(?:\d{1,9}[:-])? ?(?:" + _BEGINS + rb"|" + _TRACE + rb")",
    )
)
HEADING = re.compile(rb"^==> (.{1,300}) <==\r?$", re.MULTILINE)  # what `tail` and `head` put before the lines of each file
_NUMBERED = re.compile(rb"(?:kafka|broker)s?[-_. /=]?(\d{1,9})(?![A-Za-z\d])", re.IGNORECASE)  # not of a hash
_PLACES = frozenset(
    {
        *("pod", "pod_name", "podname", "kubernetes_pod_name", "container_name", "containername", "logstreamname", "logstream"),
        *("log_stream", "host", "hostname", "_hostname", "host_name", "instance", "nodename", "node_name", "container", "filename"),
    }
)
_OWNERS = frozenset({"pod", "host", "container", "node"})


def prefix_of(line: bytes) -> bytes:
    """The source that a line has before it; empty where it has none."""
    head = line[:_HEAD]
    if head.startswith(b"\x1b") or b"\x1b" in head:
        head = _COLOURS.sub(b"", head)
    if head[:1] == b"[" and head[1:5].isdigit() and b"] [" not in head[:48]:
        return b""  # the plain layout of a server.log
    for pattern in _PREFIXES:
        if match := pattern.match(head):
            return match[1].strip()
    return b""


def is_place(key: str, owner: str) -> bool:
    """Whether a field of a JSON object names a source.

    Args:
        key: of the field.
        owner: the key of the object that it is in.
    """
    *before, key = key.lower().split(".")  # `kubernetes.pod_name`, `k8s.pod.name`
    return key in _PLACES or (key == "name" and (before[-1] if before else owner.lower()) in _OWNERS)


def number_of(source: bytes) -> int | None:
    """The number behind `kafka` or `broker` in a source's name; None if there is none, or several."""
    found = {int(number) for number in _NUMBERED.findall(source)}
    return found.pop() if len(found) == 1 else None
