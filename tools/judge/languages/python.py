"""Python source: read by its ``ast``, followed by an abstract evaluator."""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Iterator, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.languages._python_expr import HOLE_NAME
from tools.judge.languages._python_run import Machine
from tools.judge.languages._tell import Tell, TooMuch
from tools.judge.meaning.act import Code, Sink
from tools.judge.meaning.value import HOLE, Taint, Value

_WARNS = Regex(r"\\|\d(?:if|in|is|or|and|else|for|not)")
_UNFINISHED = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)
_PRINT = Regex(r"^([ \t]*(?:[^'\"\n#]*[:;][ \t]*)?)(print|exec)[ \t]+(?![(=.,\[])([^;\n]*)", re.MULTILINE)
_ENCODING = Regex(r"(?:[ \t\f]*(?:#[^\n]*)?\n)?[ \t\f]*#[^\n]*?coding[:=][ \t]*([-\w.]+)")
_ENCODINGS = frozenset(
    {"utf-8", "utf8", "utf-8-sig", "utf-8-unix", "ascii", "us-ascii", "latin-1", "latin1", "iso-8859-1", "iso-8859-15"}
)
_EXCEPT = Regex(r"^([ \t]*except[ \t]+[\w.()]+)\s*,\s*(\w+)\s*:", re.MULTILINE)


def read(code: Code, args: Sequence[Value], sink: Sink) -> bool:
    tree = parse(code.text.text)
    if tree is None or (code.source != "argument" and _is_recoded(code.text.text)):
        return False
    tell = Tell(sink)
    machine = Machine(tell, parse, args, code.text.taint & (Taint.DECODED | Taint.REMOTE), code.path, len(code.text.text))
    try:
        machine.run(tree, code.text.text)
        machine.finish()
    except (TooMuch, RecursionError, MemoryError):
        tell.flush()
        return False
    return True


def _is_recoded(source: str) -> bool:
    """Return whether the named encoding may make the source read otherwise than it looks (utf-7 hides lines in comments)."""
    found = _ENCODING.match(source)
    return found is not None and found[1].lower().replace("_", "-") not in _ENCODINGS


def parse(source: str) -> ast.Module | None:
    """Parse Python 3 or 2; None where neither would take it. HOLEs outside of strings are unknown names."""
    for attempt in _attempts(source):
        if _WARNS.search(attempt) is None:
            try:
                return ast.parse(attempt)
            except _UNFINISHED:
                continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return ast.parse(attempt)
            except _UNFINISHED:
                continue
    return None


def _attempts(source: str) -> Iterator[str]:
    yield source
    if HOLE in source:
        source = source.replace(HOLE, HOLE_NAME)
        yield source
    yield textwrap.dedent(source)
    yield _older(source)


def _older(source: str) -> str:
    """Python 2's statements as calls."""
    return _EXCEPT.sub(r"\1 as \2:", _PRINT.sub(r"\1\2(\3)", source))
