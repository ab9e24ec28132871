"""The worst of the words that people at 3 am read twice do not come back into what the product says."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "lib").rglob("*.py"))
TEMPLATES = [path for path in sorted((ROOT / "lib").rglob("templates/*")) if path.suffix in (".j2", ".js")]
DOCUMENTS = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")), *sorted((ROOT / "docs").rglob("*.md"))]
# a pattern of what not to say, and what to say
WORDS = {
    r"\bparts? (at|from the leader)\b|\blogs? parts?\b": "diverges at",
    r"\bcuts (to|away|nothing)\b|\bis cut to\b": "truncates to",
    r"\bwhat goes\b|\b(batch(es)?|records?) that goe?s?\b|\bruns? goe?s?\b": "is truncated, is removed",
    r"\bis told\b|\bnot to be told\b|\bcan(not| no longer) be told\b": "is reported; unknown",
    r"\bcannot tell\b": "does not know",
    r"\bweigh\b|\bwho is to lead\b": "choose a leader",
    r"\bwill go on to\b": "will stay diverged",
    r"\bis no proof\b": "proves nothing",
    r"\bgave up\b": "lost in the election",
    r"\bas many as there come\b": "unlimited",
    r"\bby (its|the) broker's (own )?log\b|\bby its own log\b": "according to its server.log",
    r"\bpersisted high watermark\b": "checkpointed high watermark",
    r"\bproblems? of the input\b": "input problems",
    r"\bstands? (still|there)\b": "is there; is stuck",
    r"(?<!there )\bis no (?!longer\b|more\b|[a-z]+ed\b)[a-z]": "is not a",
    r", for (it|they|there|batches|its (log|broker|file))\b": "because",
    r"\bbut for\b": "except",
    r"\bfor ever\b|\banew\b": "forever; again",
    r"\b(exchange|this) has no end\b": "never ends",
    r"\bheld against\b": "compared with",
    r"\bby and by\b|\bempty of blame\b": "later; no cause",
    r"\w\(s\)": "one or several, by the number: words.count",
}


def said(source: str) -> Iterator[tuple[int, str]]:
    """The texts of a module that reach people: string literals, those of f-strings joined, but no docstrings; each with its line."""
    tree = ast.parse(source)
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    documented = (node for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef))
    docstrings = {id(node.body[0].value) for node in documented if node.body and isinstance(node.body[0], ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings | inside:
            yield node.lineno, node.value


def grating(text: str) -> list[str]:
    """What to say instead, for each pattern that a text has; text is taken as one line."""
    return [better for pattern, better in WORDS.items() if re.search(pattern, " ".join(text.split()), re.IGNORECASE)]


def test_no_text_of_the_product_grates() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}: {text!r}": better
        for path in SOURCES
        for line, text in said(path.read_text(encoding="utf-8"))
        if (better := grating(text))
    }
    assert not found


def test_no_template_grates() -> None:
    """Tags and what they hold for programs are left out; a heading, a label and a sentence of a script are read as they are."""
    lines = {path: re.sub(r"<[a-z/][^<>]*>", " ", path.read_text(encoding="utf-8")).splitlines() for path in TEMPLATES}
    numbered = [(path.name, number, line) for path in TEMPLATES for number, line in enumerate(lines[path], 1)]
    assert not {f"{name}:{number}: {line.strip()}": better for name, number, line in numbered if (better := grating(line))}


def test_no_document_grates() -> None:
    texts = {path.name: re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL) for path in DOCUMENTS}
    paragraphs = [(name, paragraph) for name, text in texts.items() for paragraph in text.split("\n\n")]
    assert not {f"{name}: {text}": better for name, text in paragraphs if (better := grating(text))}


def test_each_pattern_fires_on_texts_and_not_on_docstrings() -> None:
    source = '"""What goes."""\n\ndef one(at: int) -> str:\n    """The logs part."""\n    return f"it cuts to {at}, " "which is told"\n'
    assert [(line, grating(text)) for line, text in said(source)] == [(5, ["truncates to", "is reported; unknown"])]
    assert grating("3 file(s)") and not grating("files")
    assert [grating(text) for text in ("it is no file", "refused, for it is late", "all but for one", "read anew")] == [
        ["is not a"],
        ["because"],
        ["except"],
        ["forever; again"],
    ]
    assert not grating("there is no file, it is no longer there, and it waits for it")
    assert grating("The two logs\n  part at 5") == ["diverges at"]
    assert not grating("part of the log starts at 5, told by nobody")
