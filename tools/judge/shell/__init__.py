"""A parser of bash and POSIX sh: text in, ``tree.Script`` out.

What bash may read in another way is refused, never guessed: whoever judges a script then asks a person.
"""

from __future__ import annotations

from tools.judge.budget import Budget
from tools.judge.shell.compound import Parser
from tools.judge.shell.errors import ShellSyntaxError, ShellTooComplex
from tools.judge.shell.tree import Script

__all__ = ["ShellSyntaxError", "ShellTooComplex", "parse"]

_DEFAULT = Budget()


def parse(text: str, budget: Budget = _DEFAULT) -> Script:
    """The tree of ``text``. Pure; costs time linear in its length.

    Raises ShellSyntaxError for what bash refuses (or reads only when it gets there, as backquotes, and would refuse then),
    and ShellTooComplex for what is longer than ``budget.chars`` or nested deeper than ``budget.depth``.
    """
    if len(text) > budget.chars:
        raise ShellTooComplex("size", budget.chars)
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
