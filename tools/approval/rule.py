"""One row of the rules table."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from tools.approval.findings import Level


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern over one simple command's normalised text (see unfold.py), and an example and a counter-example as tests.

    ``names`` are the commands it is filed under; none means all. ``files``: its operands are paths, and a grant covers only
    those below its root. ``roots``: with a system root among those paths it becomes a block, whatever was granted.
    A group named ``at`` in the pattern is added to the key: ``service.stop@nginx``.
    """

    key: str
    level: Level
    names: tuple[str, ...]
    pattern: str
    why: str
    example: str
    counter: str
    files: bool = False
    roots: bool = False

    def match(self, text: str) -> re.Match[str] | None:
        return _compiled(self.pattern).match(text)


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """At first use: compiling all of them would cost every start of the program 0.1 s."""
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


def rule(
    key: str,
    level: Level,
    names: str,
    rest: str,
    why: str,
    example: str,
    counter: str,
    *,
    files: bool = False,
    roots: bool = False,
) -> Rule:
    """A row whose pattern is one of the blank-separated ``names`` at the command's place, then ``rest``."""
    split = tuple(names.split())
    head = rf"^(?:{'|'.join(map(re.escape, split))})(?:\.[\w.-]+|[\d.]+)?(?= |$)" if split and split != ("|",) else ""
    return Rule(key, level, split, head + rest, why, example, counter, files, roots)


def word(pattern: str) -> str:
    """Some word is this."""
    return rf"(?=.* (?:{pattern})(?: |$))"


def start(pattern: str) -> str:
    """Some word begins with this."""
    return rf"(?=.* (?:{pattern}))"


def no_word(pattern: str) -> str:
    """No word is this."""
    return rf"(?!.* (?:{pattern})(?: |$))"


def sub(pattern: str) -> str:
    """The first words after the options are this (``git -C x push``)."""
    valued = r"-[CcnHrp]|--git-dir|--work-tree|--namespace|--context|--kubeconfig"
    return rf"(?: (?:{valued}) [^ ]+| -[^ ]+)*+ (?:{pattern})(?= |$)"


XARGS = r"(?: -(?:[InPLdaEs] [^ ]+|[^ ]+))*+(?: sudo)?"
"""What may stand between xargs and the command that it runs."""
