"""Approval: whether a person must agree to a call, and what was agreed before. Findings come from tools/judge.

A call's way: ``gate`` (asks or refuses, by a ``policy``), ``snapshot`` (the files that were looked at), ``binding`` (what one
answer covers), ``prompt`` (what a person reads before they answer), ``offers`` and ``grants`` (what an answer may cover beyond
that, and does; ``leads`` follows links, ``deadlines`` counts time), ``origins`` (where files came from), ``uncommitted`` (what a
git working tree holds), ``contained`` (the sandbox and the snapshots around a call). Operators: ``operator_rules``; ``described``
reads the plain text of command_allowlist. ``explain`` judges by the rules alone; what the gate would say, agent.explaining asks
the gate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tools.judge.patterns import DANGEROUS_PATTERNS

if TYPE_CHECKING:  # the judge loads with the first command, not at the start
    from tools.judge.findings import Finding

__all__ = ["DANGEROUS_PATTERNS", "detect_dangerous_command"]


def detect_dangerous_command(command: str, cwd: str = "", *, protected: Sequence[str] = ()) -> list[Finding]:
    """Every finding of ``command``, run by whoever runs this; [] where there is none (003-24). Looks at no file."""
    from tools.judge.detect import detect_dangerous_command as detect

    return detect(command, cwd, protected=protected)
