"""Words for a person about what the gate would say of a command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agent.cli.escape import exact

if TYPE_CHECKING:
    from agent.explaining import Explanation

_MEANS = {
    "allow": "allow: it runs unasked",
    "ask": "ask: a person must agree, and the yes may last",
    "ask-once": "ask-once: a person must agree, every time",
    "block": "block: refused, whatever was granted",
}


def told(explained: Explanation, person: str) -> Iterator[str]:
    """Yield the verdict, what the command comes to, and each finding with who decides; ``person`` stands for whoever is asked."""
    yield _MEANS[explained.level]
    if explained.refused and not any(one.level == "block" for one in explained.findings):
        yield f"  {exact(explained.refused)}"
    if explained.mode not in ("", "default"):
        yield f"by the session's mode: {explained.mode}"
    if explained.commands:
        yield "it comes to:"
        yield from (f"  {exact(' '.join(words))}" for words in explained.commands)
    for path in explained.looked_at:
        yield f"looked into: {exact(path)}"
    for finding in explained.findings:
        yield f"  ! {exact(finding.why)} ({exact(finding.key)}, {finding.level})"
        yield f"      {exact(finding.text)}"
        yield f"      decided by: {exact(explained.decider(finding, person))}"
