"""Print the classes outside `rows/` that share most of their fields with a class of rows: .venv/bin/python tools/mirrors.py.

A fact has one class, in `rows/`. What is printed either is that fact again and goes, or shares names by chance and stays.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "lib" / "replica_audit"
ROOM = "rows"
SHARE = 0.8
FEWEST_FIELDS = 4  # classes with fewer share names by chance

Fields = dict[tuple[str, str], frozenset[str]]  # by module and class


def fields_of_classes(package: Path) -> Fields:
    """Return the fields of every class, those of its bases included."""
    own: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                names = [part.target.id for part in node.body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)]
                bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
                own[str(path.relative_to(package)), node.name] = names, bases
    modules: dict[str, str] = {}
    for module, name in own:
        modules.setdefault(name, module)

    def every(module: str, name: str, seen: frozenset[str]) -> Iterator[str]:
        names, bases = own[module, name]
        for base in bases:
            if base in modules and base not in seen:
                yield from every(modules[base], base, seen | {base})
        yield from names

    return {key: frozenset(every(*key, frozenset({key[1]}))) for key in own}


def mirrors(fields: Fields) -> Iterator[str]:
    """Yield a line for each class outside the room that is like one in it."""
    large = {key: names for key, names in fields.items() if len(names) >= FEWEST_FIELDS}
    rows = {key: names for key, names in large.items() if key[0].startswith(f"{ROOM}/")}
    for key, names in large.items():
        if key not in rows:
            shared, row = max((len(names & of_row), row) for row, of_row in rows.items())
            if shared >= SHARE * len(names):
                yield f"{shared}/{len(names)} {':'.join(key)} ~ {':'.join(row)} ({len(rows[row])})"


def main() -> None:
    """Print them, and their number."""
    found = list(mirrors(fields_of_classes(PACKAGE)))
    sys.stdout.write("".join(f"{line}\n" for line in (*found, len(found))))


if __name__ == "__main__":
    main()
