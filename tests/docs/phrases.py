"""Phrases that no sentence of this project uses, and their replacements. The list only grows.

    python -m tests.docs.phrases                 the number of hits in each room
    python -m tests.docs.phrases agent/store     each hit below a path: file, line, phrase, replacement
    python -m tests.docs.phrases --write         record the numbers in phrases.txt

It checks docstrings and comments of Python files, string constants that read like sentences, and the prose of Markdown files.
Quotations are exempt: a line of Python with the mark ``(quoted)`` in its text or comment; in Markdown a block quote or code.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
INSTEAD: Mapping[str, str] = {
    r"where there (?:is|are|was|were)\b": "if, or when",
    r"where (?:it|they|that|this) (?:is|are|was|were|can|can't|cannot|could|does|has|had|may)\b": "if, or when",
    r"where (?:nobody|somebody|nothing|something|none|no one|any|several|both|neither|one can't)\b": "if, or when",
    r"(?:\"\"|None|True|False|empty|0) where\b": "if",
    r"nobody|somebody|someone|whoever|whomever|no one": "the user, the caller, the owner; no user",
    r"(?:by|of|to|from|for|with|in|on|at|as) (?:which|what|whom)\b": "name the thing",
    r"that which|what it (?:is|was|has|had|takes|comes)|those that\b|those of whom": "name the thing",
    r"tells?|told|telling": "report, return, print, log",
    r"go(?:es|ing)? on\b(?! to)|went on|gone on": "continue, resume",
    r"c(?:o|a)mes? (?:in)?to (?:be|nothing|light)|came to\b|what comes of|what came of": "the result, the outcome",
    r"t(?:a|oo)k(?:e|es|en|ing)? back": "undo, revert, withdraw",
    r"g(?:i|a)ve(?:s|n)? up|giving up": "cancel, stop",
    r"(?:is|are|was|were) to (?:be\b|have)": "say who does it",
    r"(?:^|(?<=\. ))(?:Have|Let) (?:it|them|the|a|an|each|what|its|one|another|somebody|others)\b": "name the actor: X does Y",
    r"(?:can|can't|could|to) be had\b": "available, unavailable",
    r"(?:lets?|letting) go of": "drop, close",
    r"(?:is|are|was|were) (?:no|none) (?:more|of)\b": "does not, are not",
    r"(?:is|was|are) (?:said|meant|looked|gone|heard) (?:of|by|at|for)\b": "name the actor",
    r"says? (?:so|which|what|yes|no|nothing)\b|said so\b": "report, return, approve, deny",
    r"mend(?:s|ed|ing)?\b": "fix, repair",
    r"look(?:s|ed|ing)? (?:for|at|into|through|up|whether|what|how) (?:it|them|what|that|whether)\b": "read, check, find",
    r"at work\b": "working, running",
    r"(?:broke|break|broken|breaks) off": "interrupt, stop",
    r"be(?:came|come|comes) of (?:it|them|that)": "the outcome",
    r"a (?:yes|no)\b": "an approval, a denial",
    r"in so far|as far as there is|for good\b": "say it plainly",
}
"""Patterns and their replacements."""
_ANY = [(re.compile(rf"(?:(?<=\W)|^)(?:{pattern})", re.MULTILINE), instead) for pattern, instead in INSTEAD.items()]
_EACH = re.compile(rf"(?:(?<=\W)|^)(?:{'|'.join(f'(?:{pattern})' for pattern in INSTEAD)})", re.MULTILINE)
"""All patterns at once: a text without a hit, as most are, is read once instead of once for each pattern."""
_CODE = re.compile(r"(?ms)^( *)(`{3,}).*?^\1\2 *$|``.*?``|`[^`\n]*`|\]\([^)]*\)|^>.*?$|<!--.*?-->")
_COMMENT = re.compile(r"(?:^|(?<=\s))# (?!noqa|type:).*", re.MULTILINE)
"""A comment, or a string that looks like one: reading the tokens takes much longer."""
_SENTENCE = re.compile(r"[a-z]+ [a-z]+ [a-z]+")
_STRING = r'''"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""|\'{3}[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*\'{3}'''
_STRING += r"""|"[^"\\\n]*(?:\\.[^"\\\n]*)*"|'[^'\\\n]*(?:\\.[^'\\\n]*)*\'"""
_BETWEEN = r"(?:\s|\\\n|\#[^\n]*\n)*[rbfuRBFU]{0,2}"
_STRINGS = re.compile(rf"\#[^\n]*|((?:{_STRING})(?:{_BETWEEN}(?:{_STRING}))*)", re.DOTALL)
"""A comment, or strings that Python joins."""
_JOINT = re.compile(rf"(?:\"{{3}}|'{{3}}|[\"']){_BETWEEN}(?:\"{{3}}|'{{3}}|[\"'])")
_ESCAPE = re.compile(r"\\(x..|[0-7]{1,3}|\n|.)", re.DOTALL)
_ESCAPED = {"\n": "", "n": "\n", "t": "\t", "r": "\r", "'": "'", '"': '"'}
ROOMS = ("agent", "tools", "toolcrib", "plugins", "benchmarks", "scripts", "tests", "docs", "examples")


_PROVEN = ROOT / "tests" / "tools" / "judge_sequences" / "driver.py"
"""A file that is not checked, because the recorded proofs of sequences hold for its exact text."""


class Hit(NamedTuple):
    """A phrase in a file."""

    path: str
    line: int
    phrase: str
    instead: str


def hits(path: Path) -> Iterator[Hit]:
    """Yield the hits in a file of Python or Markdown."""
    name, text = str(path.relative_to(ROOT)), path.read_text("utf-8", "replace")
    if path.suffix == ".py" and not _may_have_hits(text):
        return
    source = text.splitlines()
    for line, prose in _of_python(text) if path.suffix == ".py" else _of_markdown(text):
        if _EACH.search(prose) is None:
            continue
        for pattern, instead in _ANY:
            for found in pattern.finditer(prose):
                at = line + prose.count("\n", 0, found.start())
                if "(quoted)" not in source[at - 1]:
                    yield Hit(name, at, found[0], instead)


def _may_have_hits(text: str) -> bool:
    """Return False if no comment and no string of Python code has a phrase: parsing each file takes ten times as long."""
    if any(map(_EACH.search, _COMMENT.findall(text))):
        return True
    for strings in _STRINGS.findall(text):
        for prose in {_JOINT.sub("", strings), _JOINT.sub("\n", strings)}:  # they are joined, or the second one is a docstring
            if _SENTENCE.search(prose):
                if "\\" in prose:
                    prose = _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], " "), prose)
                if _EACH.search(prose.lstrip("\"'")):
                    return True
    return False


def _of_markdown(text: str) -> Iterator[tuple[int, str]]:
    yield 1, _CODE.sub(lambda found: "\n" * found[0].count("\n"), text)


def _of_python(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if (found := _COMMENT.search(line)) is not None:
            yield number, _CODE.sub("", found[0])
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _SENTENCE.search(node.value):
            yield node.lineno, _CODE.sub(lambda found: "\n" * found[0].count("\n"), node.value)


def files(*below: str) -> list[Path]:
    """Return the tracked files of Python and Markdown, all or those below some paths."""
    listed = subprocess.run(["git", "ls-files", *below], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    kept = [ROOT / name for name in listed.splitlines() if name.endswith((".py", ".md"))]
    return [path for path in kept if path.is_file() and path.name != "phrases.py" and path != _PROVEN]


def by_room() -> Counter[str]:
    """Return the number of hits by room: a top folder, or a folder below agent and tools."""
    counted = Counter[str]()
    for path in files():
        parts = path.relative_to(ROOT).parts
        room = "/".join(parts[:2]) if parts[0] in ("agent", "tools") and len(parts) > 2 else parts[0] if len(parts) > 1 else "."
        counted[room] += sum(1 for _ in hits(path))
    return counted


def main(below: list[str]) -> None:
    """Print the hits below paths, or the number of hits in each room."""
    if below == ["--write"]:
        text = "".join(f"{number:6} {room}\n" for room, number in sorted(by_room().items()) if number)
        Path(__file__).with_name("phrases.txt").write_text(text, "utf-8")
        return
    if below:
        for path in files(*below):
            for hit in hits(path):
                print(f"{hit.path}:{hit.line}: {hit.phrase!r}; say: {hit.instead}")
        return
    counted = by_room()
    for room, number in sorted(counted.items()):
        print(f"{number:6} {room}")
    print(f"{counted.total():6} in all")


if __name__ == "__main__":
    main(sys.argv[1:])
