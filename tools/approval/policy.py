"""The policy that the gate goes by: of a workspace, a principal and a session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.store import AuditLog, Grant, GrantStore
from tools.approval.modes import DEFAULT, Mode
from tools.approval.origins import OriginsReader, SessionFiles
from tools.judge.findings import Finding
from tools.judge.harmless import Harmless
from tools.judge.setting import Setting

if TYPE_CHECKING:  # the judge loads before the first call
    from tools.judge.calls import Judgement
    from tools.judge.layers import Layers


class RuleSays(NamedTuple):
    """The decision of an operator's rule for a tool; ``tool`` is the name or pattern that the rule stands under."""

    decision: Literal["allow", "ask", "deny"]
    tool: str
    why: str = ""


ToolRules: TypeAlias = Callable[[str, Any, Sequence[str]], RuleSays | None]
"""(tool's name, arguments, files that it touches) -> what the operator decided about such calls, None where nothing."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """A call as the gate weighed it. ``grants`` are those that cover a finding, ``rule`` is the operator's for the tool, and
    ``cwd`` the folder that it was judged in.
    """

    judged: Judgement
    cwd: str
    rule: RuleSays | None = None
    grants: Mapping[Finding, Grant] = field(default_factory=dict)
    mode: Mode = DEFAULT
    acts: str = ""
    """The reason that it may change something, where the mode asks for that."""
    layers: Layers | None = None
    """The sandbox and the snapshots around the call, if it runs in a sandbox that closes the disk."""


@dataclass(frozen=True, slots=True, eq=False)
class Policy:
    """All that one gate decides by. A gate serves many sessions: each call brings its own policy at ``ctx.policy``.

    ``project_root`` (absolute) bounds what a session grant covers, the call's own folder where it is None. ``audit`` receives
    every decision about a call that acts, without the secrets that ``redact`` takes out. ``files`` remembers the origins of
    files of its sessions. Policies of one ``setting`` may share ``harmless``; ``dataclasses.replace`` keeps it. ``on_weighed`` is
    called with each call's weighing. ``mode`` is the session's, which a person sets. ``covers`` returns whether snapshots undo
    every change of an absolute path and of all that is below it; None: the session has no snapshots.
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
    """Name and task of the delegate whose session it is; None for a session of a person's."""
    covers: Callable[[str], bool] | None = None
    covers_all_but_ignored: Callable[[str], bool] | None = None
    """As ``covers``, but folders below the path may be left out that git ignores and a tool makes again, such as node_modules."""
    measured: Callable[[], Awaitable[None]] | None = None
    """Waits until ``covers`` can answer."""

    def only_asking(self, on_weighed: Callable[[Weighed], None]) -> Policy:
        """Return the same policy for whoever asks what the gate would say: nothing is recorded, remembered or spent by it."""
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
    """A GrantStore that changes nothing: a counted grant counts, and is not spent."""

    kept: GrantStore

    async def add(self, grant: Grant) -> None:
        raise PermissionError("nothing is granted while somebody only asks")

    async def all(self, session_id: str | None = None, principal: str = "") -> Sequence[Grant]:
        return await self.kept.all(session_id, principal)

    async def spend(self, grant_id: str) -> bool:
        return True  # the gate asks to spend what it has just read, and what is used up covers nothing

    async def revoke(self, grant_id: str) -> bool:
        return True  # a grant that is over covers nothing; the next call that meets it revokes it
