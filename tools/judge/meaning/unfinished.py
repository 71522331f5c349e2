"""Input that ends inside a statement is completed, so that its first lines are judged before the others are written.

A program that reads its input by lines runs nothing of an open block, but the lines of the block are known: ``for x in a b; do``
is judged as ``for x in a b; do :; done``. Text that can't be completed stays as it is, and the user is asked about it.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning.value import HOLE, Taint, Value
from tools.judge.meaning.walk import Walker
from tools.judge.shell import ShellSyntaxError, ShellTooComplex, parse

_MOST_PARTS = 24
"""Maximum number of words and brackets that are added to a shell's input."""
_NEXT: dict[str, Sequence[str]] = {
    "unclosed single quote": ("'",),
    "unclosed double quotes": ('"',),
    "unclosed backquote": ("`",),
    "unclosed command substitution": (")",),
    "unexpected end of the text": ("\n)", "\nesac", "\n{ :; }"),
    "expected 'in'": (" in ",),
    **{f"expected '{word}'": (f"\n{word} ",) for word in ("do", "done", "then", "fi", "esac", "}")},
}
"""Texts that may come next, by the parser's message: the first one that the parser accepts is added."""
_ONLY_BASH = Regex(r"\$['\"]|\[\[|\(\(|[<>]\(|<<<|=\(|\b(?:function|select|coproc|time)\b")
"""Text that other shells read in another way."""


def completed(it: Walker, text: Value, program: str) -> Value:
    """Return what was written to the input of ``program``, which is Python or a shell, with its last statement completed."""
    if not text.taint & Taint.INPUT or not text.text.strip(f"{HOLE} \n"):
        return text
    it.limits.spend(len(text.text))
    if program == "python":
        return text._replace(text=_python_input(text.text))
    return text._replace(text=_shell_input(it, text.text, is_bash=program == "bash"))


def _shell_input(it: Walker, text: str, *, is_bash: bool) -> str:
    """Return the text of a shell's input with the commands completed that it leaves open."""
    whole = text
    try:
        for _ in range(_MOST_PARTS):
            error = _error_of(it, whole)
            if error is None:
                return whole
            if whole is text and not is_bash and _ONLY_BASH.search(text):
                break
            for part in _NEXT.get(error.message, ()) if _may_continue(error, whole) else ():
                after = _error_of(it, whole + part)
                if after is None or _may_continue(after, whole + part):
                    whole += part
                    break
            else:
                break
    except ShellTooComplex:
        pass
    return text


def _error_of(it: Walker, text: str) -> ShellSyntaxError | None:
    it.limits.spend(len(text))
    try:
        parse(text, it.limits.budget)
    except ShellSyntaxError as error:
        return error
    return None


def _may_continue(error: ShellSyntaxError, text: str) -> bool:
    """Return whether the text is wrong only because it ends."""
    return error.message.startswith("unclosed") or error.offset >= len(text)


# -- Python ---------------------------------------------------------------------------------------------------------

_F_STRING = Regex(r"(?i)\b(?:f|rf|fr)['\"]")
"""A text whose end depends on Python's version."""
_OPEN = {"(": ")", "[": "]", "{": "}"}


def _python_input(text: str) -> str:
    """Return the text of Python's input with the statements completed that it leaves open."""
    if _reads(text) or _F_STRING.search(text):
        return text
    return next((whole for whole in _completions(text) if _reads(whole)), text)


def _reads(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _completions(text: str) -> Iterator[str]:
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return
    indent = lines[-1][: len(lines[-1]) - len(lines[-1].lstrip())]
    tries = _open_tries(lines)
    for tail in ("", _closers(text), '"""', "'''"):
        for block in ("", f"\n{indent}    pass", f"\n{indent}def _(): pass"):
            yield f"{text.rstrip()}{tail}{block}\n"
            yield f"{text.rstrip()}{tail}{block}\n{tries}"


def _open_tries(lines: Sequence[str]) -> str:
    """Return a ``finally`` for each ``try`` that has no handler, from the last to the first."""
    found: list[str] = []
    for line in lines:
        word = line.lstrip()
        indent = line[: len(line) - len(word)]
        starts, ends = word.startswith("try:"), word.startswith(("except", "finally"))
        while found and len(found[-1]) >= len(indent) + (not starts and not ends):
            found.pop()
        found += [indent] if starts else []
    return "".join(f"{one}finally:\n{one}    pass\n" for one in reversed(found))


def _closers(text: str) -> str:
    """Return the brackets that close the open ones."""
    found: list[str] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.OP and token.string in _OPEN:
                found.append(_OPEN[token.string])
            elif token.type == tokenize.OP and found and token.string == found[-1]:
                found.pop()
    except (tokenize.TokenError, SyntaxError, ValueError):
        pass
    return "".join(reversed(found))
