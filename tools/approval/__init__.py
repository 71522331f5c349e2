"""Approval: decide whether a user must approve a call, and remember what was approved. Findings come from tools/judge.

``gate`` asks or refuses, according to a ``policy``. ``snapshot`` holds the files that were read, ``binding`` the digest of an
answer's scope. ``prompt`` is the text that a user reads before the answer. ``offers`` and ``grants`` are what an answer may cover
beyond the call; ``leads`` follows links and ``deadlines`` checks times. ``origins`` records where files came from,
``uncommitted`` reads git working trees, and ``contained`` describes the sandbox and the snapshots around a call.
``operator_rules`` are an operator's rules; ``described`` reads the plain text of command_allowlist. ``explain`` judges by the
rules alone; agent.explaining asks the gate itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tools.judge.patterns import DANGEROUS_PATTERNS

if TYPE_CHECKING:  # the judge is imported with the first command, not at the start
    from tools.judge.findings import Finding

__all__ = ["DANGEROUS_PATTERNS", "detect_dangerous_command"]


def detect_dangerous_command(command: str, cwd: str = "", *, protected: Sequence[str] = ()) -> list[Finding]:
    """Return all findings of ``command``, run by this account; [] if there is none (003-24). Reads no file."""
    from tools.judge.detect import detect_dangerous_command as detect

    return detect(command, cwd, protected=protected)
