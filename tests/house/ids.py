"""Rules of the specification that a test names.

python tests/house/ids.py [RULE...]     e.g. 003-1 002; all rules of a chapter, or of all chapters by default
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

CHAPTERS = {"000": 47, "001": 18, "002": 35, "003": 32, "004": 22, "X": 10}
"""Number of rules in each chapter."""

CITED = re.compile(r"(?<![\w-])(00\d|X)-(\d+)(?!\w)")

LIKELY = re.compile(r"(?:00\d|X)[-_]\d", re.IGNORECASE)
"""Pattern in each file that cites a rule, in a docstring or a test's name."""


def exists(rule: str) -> bool:
    chapter, _, number = rule.rpartition("-")
    return 1 <= int(number) <= CHAPTERS.get(chapter, 0) and str(int(number)) == number


def cited(root: Path) -> dict[str, list[str]]:
    """Return the tests (path::name) whose name or docstring cites each rule."""
    found: dict[str, list[str]] = {}
    for path in sorted((root / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if LIKELY.search(text) else ():
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test"):
                name = re.sub(r"_(00\d|X)_(\d+)(?=_|$)", r" \1-\2 ", node.name)
                for chapter, number in set(CITED.findall(f"{name} {ast.get_docstring(node) or ''}")):
                    found.setdefault(f"{chapter}-{number}", []).append(f"{path.relative_to(root)}::{node.name}")
    return found


def main(wanted: list[str]) -> None:
    have = cited(Path(__file__).resolve().parents[2])
    for chapter, count in CHAPTERS.items():
        for rule in (f"{chapter}-{number}" for number in range(1, count + 1)):
            if not wanted or rule in wanted or chapter in wanted:
                places = have.get(rule, [])
                print(f"{rule:7} {len(places):3}  {places[0] if places else '-'}")


if __name__ == "__main__":
    main(sys.argv[1:])
