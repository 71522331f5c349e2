"""A parser of bash and POSIX sh: text in, ``tree.Script`` out.

What bash may read in another way is refused, never guessed: whoever judges a script then asks a person.
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
"""One command of words in which nothing is quoted, expanded or redirected: most of all."""
_WORD = Regex(r"[^ \t]++")


def parse(text: str, budget: Budget = _DEFAULT) -> Script:
    """The tree of ``text``. Pure; costs time linear in its length.

    Raises ShellSyntaxError for what bash refuses (or reads only when it gets there, as backquotes, and would refuse then),
    and ShellTooComplex for what is longer than ``budget.chars`` or nested deeper than ``budget.depth``.
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
    """Return the tree of a text of plain words; None where the first one makes more of it than a simple command."""
    words: list[Word] = []
    for match in _WORD.finditer(text):
        start, end = match.span()
        word = match.group()
        if not words and (word in DECLARES or word in Parser.compounds or word in Parser.no_compound):
            return None
        words.append(Word([Plain(word)], start, end))
    return Script([ScriptItem(Simple([], [*words], [], words[0].start, words[-1].end))], [0])
