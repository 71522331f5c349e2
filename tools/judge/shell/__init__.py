"""A parser of bash and POSIX sh: text in, ``tree.Script`` out.

The parser never guesses: it raises an error for text that bash may read in another way, and then the user is asked.
"""

from __future__ import annotations

from toolcrib.contract.regex import Regex
from tools.judge.budget import Budget
from tools.judge.shell.assignments import DECLARES
from tools.judge.shell.compound import Parser
from tools.judge.shell.errors import ShellSyntaxError, ShellTooComplex
from tools.judge.shell.tree import Plain, Script, ScriptItem, Simple, Word

__all__ = ["ShellSyntaxError", "ShellTooComplex", "parse"]

_DEFAULT = Budget()
_PLAIN = Regex(
    r"""[ \t]*+[^ \t\n;&|()<>\\'"$`#=\[\0][^ \t\n;&|()<>\\'"$`=\[\0]*+"""
    r"""(?:[ \t]++[^ \t\n;&|()<>\\'"$`#\0][^ \t\n;&|()<>\\'"$`\0]*+)*+[ \t]*+"""
)
"""A single command of words without quotes, expansions or redirects: the most frequent case."""
_WORD = Regex(r"[^ \t]++")


def parse(text: str, budget: Budget = _DEFAULT) -> Script:
    """Return the tree of ``text``. It has no effects, and its time is linear in the length of ``text``.

    Raises ShellSyntaxError for text that bash refuses (even if only at run time, as in backquotes) or may read in another way,
    and ShellTooComplex for text that is longer than ``budget.chars`` or nested deeper than ``budget.depth``.
    """
    if len(text) > budget.chars:
        raise ShellTooComplex("size", budget.chars)
    if budget.depth and _PLAIN.fullmatch(text) and (plain := _plain(text)) is not None:
        return plain
    parser = Parser(text, budget.depth)
    if "\0" in text:
        raise ShellSyntaxError("a NUL character", text.index("\0"))
    try:
        script = parser.script()
        if parser.pos < len(text):
            parser.unexpected()
        if parser.heredocs:
            parser.gather()
    except RecursionError:
        raise ShellTooComplex("depth", parser.pos) from None
    return script


def _plain(text: str) -> Script | None:
    """Return the tree of a text of plain words; None if the first word makes it more than a simple command."""
    words: list[Word] = []
    for match in _WORD.finditer(text):
        start, end = match.span()
        word = match.group()
        if not words and (word in DECLARES or word in Parser.compounds or word in Parser.no_compound):
            return None
        words.append(Word([Plain(word)], start, end))
    return Script([ScriptItem(Simple([], [*words], [], words[0].start, words[-1].end))], [0])
