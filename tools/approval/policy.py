"""The policy that the gate applies to a call. It depends on the workspace, the principal and the session."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.store import AuditLog, Grant, GrantStore
from tools.approval.modes import DEFAULT, Mode
from tools.approval.origins import OriginsReader, SessionFiles
from tools.judge.findings import Finding
from tools.judge.harmless import Harmless
from tools.judge.setting import Setting

if TYPE_CHECKING:  # the judge is not imported at the start, but before the first call
    from tools.judge.calls import Judgement
    from tools.judge.layers import Layers


class RuleSays(NamedTuple):
    """The decision of an operator's rule for a tool; ``tool`` is the name or pattern in the rule, or its toolset."""

    decision: Literal["allow", "ask", "deny"]
    tool: str
    why: str = ""


ToolRules: TypeAlias = Callable[[str, Any, Sequence[str], str], RuleSays | None]
"""(tool's name, arguments, files that it touches, toolset) -> the operator's decision about the call, or None."""
ToolRulesByName: TypeAlias = Callable[[str, Any, Sequence[str]], RuleSays | None]


def with_toolset(rules: ToolRules | ToolRulesByName) -> ToolRules:
    """Return the rules as a function that is given the toolset too. ``rules`` may take three arguments, without it."""
    try:
        inspect.signature(rules).bind("", {}, (), "")
    except TypeError:
        by_name = cast(ToolRulesByName, rules)
        return lambda name, args, paths, _toolset: by_name(name, args, paths)
    return cast(ToolRules, rules)


@dataclass(frozen=True, slots=True)
class Weighed:
    """A call as the gate weighed it. ``grants``: grants that cover a finding; ``rule``: the operator's rule for the tool.

    ``cwd``: the folder that the call was judged in.
    """

    judged: Judgement
    cwd: str
    rule: RuleSays | None = None
    grants: Mapping[Finding, Grant] = field(default_factory=dict)
    mode: Mode = DEFAULT
    acts: str = ""
    """The reason why the call may change something, if the mode asks about that, else ""."""
    layers: Layers | None = None
    """The sandbox and the snapshots around the call, or None if it is judged without them: see ``layers_of``."""


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """The rules and stores for one gate's decisions. A gate serves many sessions: each call has its own policy in ``ctx.policy``.

    ``project_root`` (absolute) bounds session grants; None: the call's own folder. ``audit`` receives every decision about a call
    that acts, without the secrets that ``redact`` removes. ``files`` remembers the origins of the sessions' files. Policies with
    the same ``setting`` may share ``harmless``; ``dataclasses.replace`` keeps it. ``on_weighed`` is called with each weighed
    call. ``mode`` is the session's, which the user sets. ``covers`` returns whether snapshots can undo every change at and below
    an absolute path; None: the session has no snapshots.
    """

    grants: GrantStore
    setting: Setting = field(default_factory=Setting)
    project_root: str | None = None
    audit: AuditLog | None = None
    tool_rules: ToolRules | None = None
    redact: Callable[[str], str] = str
    files: SessionFiles = field(default_factory=SessionFiles)
    harmless: Harmless = field(default_factory=Harmless)
    on_weighed: Callable[[Weighed], None] | None = None
    mode: Mode = DEFAULT
    delegate: Mapping[str, str] | None = None
    """Name and task of the delegate whose session it is; None for a user's session."""
    above: Sequence[str] = ()
    """The sessions above a delegate's, whose grants do not cover the delegate's calls."""
    covers: Callable[[str], bool] | None = None
    covers_all_but_ignored: Callable[[str], bool] | None = None
    """Like ``covers``, but may omit folders that git ignores and a tool can recreate, such as node_modules."""
    measured: Callable[[], Awaitable[None]] | None = None
    """Waits until ``covers`` can answer."""

    def only_asking(self, on_weighed: Callable[[Weighed], None]) -> Policy:
        """Return the same policy for a trial: nothing is recorded, remembered or spent."""
        return replace(
            self,
            grants=_Unspent(self.grants),
            audit=None,
            files=OriginsReader(self.files),
            harmless=Harmless(),
            on_weighed=on_weighed,
        )


@dataclass(frozen=True, slots=True)
class _Unspent:
    """A GrantStore that changes nothing: a counted grant applies, and is not spent."""

    kept: GrantStore

    async def add(self, grant: Grant) -> None:
        raise PermissionError("an explanation grants nothing")

    async def all(self, session_id: str | None = None, principal: str = "") -> Sequence[Grant]:
        return await self.kept.all(session_id, principal)

    async def spend(self, grant_id: str) -> bool:
        return True  # the gate has just read the grant, and a used-up one covers nothing

    async def revoke(self, grant_id: str) -> bool:
        return True  # an expired grant covers nothing; the next call revokes it
