"""Contexts of the parser. Each has its own ending characters and special characters."""

from __future__ import annotations

import re

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.regex import Regex
from tools.judge.shell.tree import Plain, Quoted


@dataclass(frozen=True, slots=True)
class Mode:
    """A context. ``run`` matches characters without special meaning.

    The characters in ``ends`` end the context, except between ``opens`` and ``closes``. "" stands for the end of the text.
    """

    name: str
    run: Regex[str]
    ends: frozenset[str]
    text: type[Plain] | type[Quoted] = Plain
    opens: str = ""
    closes: str = ""
    quoted: bool = False
    """True if the text is in double quotes or a here-document: there a backslash escapes only the characters in ``escapes``."""
    escapes: str = ""
    """Characters that a backslash escapes if ``quoted`` is True, besides a newline."""
    single: bool = True
    """True if ``'...'`` quotes; otherwise ``'`` is literal."""
    processes: bool = True
    """True if ``<(...)`` is a process substitution; otherwise the parser refuses it."""
    globs: bool = False
    """True if ``@(...)`` and similar forms are patterns."""


def _run(special: str) -> Regex[str]:
    return Regex(f"[^{re.escape(special)}]++")


# In double quotes a backslash before most characters is literal.
_IN_DOUBLE = Regex(r'(?:[^"\\$`]|\\[^"\\$`\n])++', re.DOTALL)
_IN_HEREDOC = Regex(r"(?:[^\\$`]|\\[^\\$`\n])++", re.DOTALL)
_IN_DOUBLE_ARGUMENT = Regex(r"(?:[^\"'\\$`}]|\\[^\"\\$`\n}])++", re.DOTALL)

META = " \t\n;&|()<>"
WORD = Mode("word", _run(META + "\\'\"$`"), frozenset(META) | {""}, globs=True)
REGEX = Mode("regular expression", _run(META + "\\'\"$`"), frozenset(" \t\n;&<>)") | {""}, opens="(", closes=")")
DOUBLE = Mode("double quotes", _IN_DOUBLE, frozenset('"'), Quoted, quoted=True, escapes='$`"\\', single=False)
HEREDOC = Mode("here-document", _IN_HEREDOC, frozenset([""]), Quoted, quoted=True, escapes="$`\\", single=False)
ARGUMENT = Mode("${...}", _run("}\\'\"$`<>"), frozenset("}"))
QUOTED_ARGUMENT = Mode("${...} in double quotes", _run("}\\'\"$`<>"), frozenset("}"), processes=False)
QUOTED_PATTERN = Mode("${...} in double quotes", _run("/}\\'\"$`<>"), frozenset("/}"), processes=False)
PATTERN = Mode("${...}", _run("/}\\'\"$`<>"), frozenset("/}"))
DOUBLE_ARGUMENT = Mode(
    "${...} in double quotes", _IN_DOUBLE_ARGUMENT, frozenset("}"), Quoted, quoted=True, escapes='$`"\\}', single=False
)
HEREDOC_ARGUMENT = Mode(
    "${...} in a here-document", _IN_DOUBLE_ARGUMENT, frozenset("}"), Quoted, quoted=True, escapes="$`\\}", single=False
)
ARITHMETIC = Mode("arithmetic", _run("()\\'\"$`"), frozenset(")"), opens="(", closes=")")
ARITHMETIC_PART = Mode("arithmetic", _run("();\\'\"$`"), frozenset(");"), opens="(", closes=")")
BRACKET_ARITHMETIC = Mode("$[...]", _run("[]\\'\"$`"), frozenset("]"), opens="[", closes="]")
SUBSCRIPT = Mode("[...]", _run("[]\\'\"$`<>"), frozenset("]"), opens="[", closes="]", processes=False)
BRACE_SUBSCRIPT = Mode("[...]", _run("[]}\\'\"$`<>"), frozenset("]}"), opens="[", closes="]", processes=False)
ARGUMENT_SUBSCRIPT = Mode("[...]", _run(META + "[]\\'\"$`"), frozenset(META + "]") | {""}, opens="[", closes="]")
ALTERNATIVE = Mode("pattern", _run("|()\\'\"$`<>"), frozenset("|)"), opens="(", closes=")", globs=True, processes=False)
