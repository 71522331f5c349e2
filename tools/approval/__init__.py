"""Approval: what a call would do, whether a person must agree, and what was agreed before.

A command's way: ``shell`` (text to a syntax tree), ``meaning`` (to what it would execute, sources of other languages read by
``languages``), ``assess`` (held against ``rules``, whose rows ``table`` makes, and against ``path_rules``; ``writes``,
``walks`` and ``links`` say which paths a command reaches). A call's way: ``judge`` (its effects to ``findings``, by a
``setting``; ``paths`` for files), ``gate`` (asks or refuses, by a ``policy``), ``snapshot`` (the files that were looked at),
``binding`` (what one answer covers), ``offers`` and ``grants`` (what an answer may cover beyond that, and does), ``origins``
(where files came from), ``folders`` (what lies below what). Operators: ``operator_rules``; ``described`` reads the plain text
of command_allowlist. The specification's names: ``patterns`` and ``detect``.

Something new: a rule is a row in ``rules``, a builtin or a wrapper a row in ``meaning``, a language a module in ``languages``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tools.approval.patterns import DANGEROUS_PATTERNS

if TYPE_CHECKING:  # the judge loads with the first command, not at the start
    from tools.approval.findings import Finding

__all__ = ["DANGEROUS_PATTERNS", "detect_dangerous_command"]


def detect_dangerous_command(command: str, cwd: str = "", *, protected: Sequence[str] = ()) -> list[Finding]:
    """Every finding of ``command``, run by whoever runs this; [] where there is none (003-24). Looks at no file."""
    from tools.approval.detect import detect_dangerous_command as detect

    return detect(command, cwd, protected=protected)
