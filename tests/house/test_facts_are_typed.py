"""A fact is decided once, kept typed, and put into words last: who shows it neither decides it again nor reads it from a sentence."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

from tests.house.checkout import ROOT

PACKAGE = ROOT / "lib" / "replica_audit"
REPORT = sorted((PACKAGE / "report").rglob("*.py"))
_FOLDERS = ("report", "past", "notebook", "commands", "stages", "partition")
SHOWN = sorted((*PACKAGE.glob("*.py"), *(path for part in _FOLDERS for path in (PACKAGE / part).rglob("*.py"))))
TEXTS = {"reason", "evidence", "summary", "detail", "sentence"}
PARSING = {"split", "rsplit", "startswith", "endswith", "partition", "rpartition", "find", "index", "removeprefix", "removesuffix"}
EXPRESSIONS = {"match", "search", "fullmatch", "findall", "finditer", "sub", "split"}
# takes a sentence apart and puts it together again as it was, to store it once for all its numbers; no number is looked at
PACKS = {"report/page/page_data.py"}


def label(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def is_text(node: ast.expr | None) -> bool:
    """Whether an expression is a sentence of a row: a name or attribute called so, also behind `or ""` or a subscript `["reason"]`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in TEXTS
        case ast.Subscript(slice=ast.Constant(value=name)):
            return name in TEXTS
        case ast.BoolOp(values=values):
            return any(map(is_text, values))
        case ast.Call(func=ast.Name(id="str"), args=[one]):
            return is_text(one)
    return False


def parsed(tree: ast.AST) -> Iterator[int]:
    """The lines at which a sentence is taken apart, or something is looked for in it."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr=method)) if method in PARSING and is_text(value):
                yield node.lineno
            case ast.Call(func=ast.Attribute(attr=method), args=args) if method in EXPRESSIONS and any(map(is_text, args)):
                yield node.lineno
            case ast.Compare(ops=ops, comparators=others) if any(isinstance(op, ast.In | ast.NotIn) for op in ops):
                if any(map(is_text, others)):
                    yield node.lineno
            case ast.Subscript(value=value, slice=ast.Slice()) if is_text(value):
                yield node.lineno


def test_no_fact_is_read_from_a_sentence() -> None:
    found = {label(path): lines for path in SHOWN if (lines := list(parsed(ast.parse(path.read_text(encoding="utf-8")))))}
    assert len(SHOWN) > 100
    assert found.keys() == PACKS, f"{found}: add a typed column instead"


def test_each_way_to_parse_is_seen() -> None:
    for code in (
        'kind = verdict.reason.split(":")[0]',
        'if verdict.reason.startswith("leader "): pass',
        'for fact in (one.verdict.evidence or "").split("; "): pass',
        'if "truncated to" in finding.summary: pass',
        'if path not in (verdict.evidence or ""): pass',
        're.search("x", row["detail"])',
        "NUMBER.findall(reason)",
        'row["reason"].partition(":")',
        "reason[:4]",
    ):
        assert list(parsed(ast.parse(code))) == [1], code
    for code in ("reason.upper()", 'f"{verdict.reason}."', 'text.split("-")', "row in rows", "below(folder, reason)"):
        assert not list(parsed(ast.parse(code))), f"{code}: words may be shown"


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """(module, name) of everything that a file imports of the protocol."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("replica_audit.protocol"):
            yield from ((str(node.module), alias.name) for alias in node.names)
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.startswith("replica_audit.protocol"))


def test_a_report_decides_nothing() -> None:
    """Of the protocol it knows codes and types, no function and no module; least of all the exchange."""
    imports = [(path, module, name) for path in REPORT for module, name in imported(path)]
    assert imports
    for path, module, name in imports:
        assert module != "replica_audit.protocol.exchange.replay", f"{label(path)} replays the exchange"
        what = getattr(importlib.import_module(module), name, None) if name else None
        assert what is not None, f"{label(path)} imports all of {module}: import the types that it needs"
        assert not inspect.isfunction(what), f"{label(path)} calls {module}.{name}: keep what it decides in a column"
        assert not inspect.ismodule(what), f"{label(path)} imports all of {module}.{name}: import the types that it needs"
