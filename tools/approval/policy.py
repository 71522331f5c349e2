"""The policy that the gate goes by: of a workspace, a principal and a session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Literal, NamedTuple, TypeAlias

from toolcrib._dataclass import dataclass
from toolcrib._store import AuditLog, GrantStore
from tools.approval.judge import Harmless
from tools.approval.origins import SessionFiles
from tools.approval.setting import Setting


class RuleSays(NamedTuple):
    """The decision of an operator's rule for a tool; ``tool`` is the name or pattern that the rule stands under."""

    decision: Literal["allow", "ask", "deny"]
    tool: str
    why: str = ""


ToolRules: TypeAlias = Callable[[str, Any], RuleSays | None]
"""(tool's name, arguments) -> what the operator decided about such calls, None where nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """All that one gate decides by. A gate serves many sessions: each call brings its own policy at ``ctx.policy``.

    ``project_root`` (absolute) bounds what a session grant covers, the call's own folder where it is None. ``audit`` receives
    every decision about a call that acts, without the secrets that ``redact`` takes out. ``files`` remembers the origins of
    files of its sessions. Policies of one ``setting`` may share ``harmless``; ``dataclasses.replace`` keeps it.
    """

    grants: GrantStore
    setting: Setting = field(default_factory=Setting)
    project_root: str | None = None
    audit: AuditLog | None = None
    tool_rules: ToolRules | None = None
    redact: Callable[[str], str] = str
    files: SessionFiles = field(default_factory=SessionFiles)
    harmless: Harmless = field(default_factory=Harmless)
