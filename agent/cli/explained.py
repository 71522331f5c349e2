"""Describe to a user how the gate judges a command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agent.cli.escape import exact
from tools.judge.setting import person_home

if TYPE_CHECKING:
    from agent.config import Config
    from agent.explaining import Explanation
    from tools.judge.findings import Finding

_MEANS = {
    "allow": "allow: it runs without asking",
    "ask": "ask: a user must approve it, and the approval may last",
    "ask-once": "ask-once: a user must approve it every time",
    "block": "block: denied, despite any grant",
}


def deciding(explained: Explanation, finding: Finding, person: str, config: Config) -> tuple[str, Sequence[str]]:
    """Return who or what decides on a finding; if a user does, also the roles that may approve it in chats of the gateway."""
    from agent.desk.approvals import ApprovalRights

    decider = explained.decider(finding, person)
    return decider, sorted(ApprovalRights(lambda: config.gateway.approvers).roles_for(finding.key)) if decider == person else ()


def explanation_lines(explained: Explanation, person: str, config: Config) -> Iterator[str]:
    """Yield the verdict, the commands that would run, and each finding with its decider. ``person`` names the user who is
    asked.

    If the configuration has platforms, the lines also name the roles that may approve in chats.
    """
    yield _MEANS[explained.level]
    if explained.refused and not any(one.level == "block" for one in explained.findings):
        yield f"  {exact(explained.refused)}"
    if explained.mode not in ("", "default"):
        yield f"by the session's mode: {explained.mode}"
    if explained.commands:
        yield "it runs:"
        yield from (f"  {exact(' '.join(words))}" for words in explained.commands)
    for path in explained.looked_at:
        yield f"read: {exact(path)}"
    for finding in explained.findings:
        yield f"  ! {exact(finding.why)} ({exact(finding.key)}, {finding.level})"
        yield f"      {exact(finding.text)}"
        if (held := explained.handling(finding, person_home())) is not None:
            yield f"      {exact(held.why)}"
            if held.by in ("sandbox", "undo"):
                continue
        decider, roles = deciding(explained, finding, person, config)
        yield f"      decided by: {exact(decider)}"
        if config.platforms and roles:
            yield f"      in chats of the gateway: {exact(' or '.join(roles))} may approve"
