"""A single gate serves many workspaces and users: each call brings its own policy."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from agent.store.memory import MemoryStore
from toolcrib import Answer, ExecutedCall, RunIdentity, ToolCall, ToolRegistry
from toolcrib.testing import FakeEnvironment
from tools.approval import DANGEROUS_PATTERNS, detect_dangerous_command
from tools.approval.gate import APPROVAL, ApprovalGate
from tools.approval.grants import MemoryGrants
from tools.approval.policy import Policy, RuleSays
from tools.dispatch.hooks import new_manager, plan_hooks
from tools.dispatch.pipeline import Dispatcher
from tools.dispatch.scope import CallScope
from tools.judge.setting import Setting
from tools.registry import registry as known


class Shared:
    """A dispatcher and a gate, and scopes of several users and workspaces."""

    def __init__(self) -> None:
        import tools.terminal_tool  # noqa: F401 - registers the tool

        self.store = MemoryStore()
        self.manager = new_manager()
        self.manager.register(ApprovalGate(MemoryGrants()), APPROVAL)
        registry = ToolRegistry()
        entry = known.get("terminal")
        assert entry is not None
        registry.put(entry)
        self.dispatcher = Dispatcher(registry, self.manager)
        self.policy = Policy(self.store.grants, project_root="/project")
        self.scopes: list[CallScope] = []

    def scope(self, user: str = "", session: str = "s1", policy: Any = None) -> CallScope:
        made = CallScope(
            identity=RunIdentity(session, user=user, platform="telegram"),
            open_environment=lambda: FakeEnvironment(commands=lambda request: (0, b"")),
            suspends=True,
            ledger=self.store.ledger,
            tickets=self.store.tickets,
            policy=self.policy if policy is None else policy,
        )
        self.scopes.append(made)
        return made

    def do(self, command: str, scope: CallScope) -> ExecutedCall:
        return asyncio.run(self.dispatcher.call(ToolCall(ToolCall.new_id(), "terminal", {"command": command}), scope))

    def approve(self, command: str, scope: CallScope, how: str) -> None:
        ticket = self.do(command, scope).result.suspension
        assert ticket is not None
        answer = Answer(ticket.id, payload={"approved": True, "scope": how}, by="ann")
        assert asyncio.run(self.dispatcher.resume(answer, scope)).result.is_success


@pytest.fixture
def shared() -> Iterator[Shared]:
    made = Shared()
    yield made
    for scope in made.scopes:
        asyncio.run(scope.close())


@pytest.mark.parametrize("how", ["always", "session"])
def test_a_grant_belongs_to_the_principal_who_was_asked(shared: Shared, how: str) -> None:
    shared.approve("rm -rf build", shared.scope("ann"), how)
    (grant,) = asyncio.run(shared.store.grants.all())
    assert grant.principal == "telegram:ann"
    assert shared.do("rm -rf build", shared.scope("ann")).result.is_success
    assert shared.do("rm -rf build", shared.scope("bob")).result.is_pending
    assert shared.do("rm -rf build", shared.scope()).result.is_pending


def test_an_answer_for_one_principal_covers_no_other(shared: Shared) -> None:
    """If the session changes hands between question and answer, a new ticket is made and the call is parked again"""
    ticket = shared.do("rm -rf build", shared.scope("ann")).result.suspension
    assert ticket is not None
    answer = Answer(ticket.id, payload={"approved": True})
    again = asyncio.run(shared.dispatcher.resume(answer, shared.scope("bob")))
    assert again.result.is_pending
    assert again.result.suspension is not None
    assert again.result.suspension.id != ticket.id


def test_each_workspace_has_its_own_rules(shared: Shared) -> None:
    strict = replace(shared.policy, tool_rules=lambda name, args, paths, toolset: RuleSays("deny", name, "not here"))
    assert "not here" in str(shared.do("ls", shared.scope(policy=strict)).result.message)
    assert shared.do("ls", shared.scope()).result.is_success
    closed = Policy(shared.store.grants, Setting(protected=("/project/own",)), audit=shared.store.audit)
    assert shared.do("rm /project/own/x", shared.scope(policy=closed)).result.is_error
    entries = asyncio.run(shared.store.audit.entries("s1"))
    assert [entry.decision for entry in entries] == ["blocked"]


def test_a_policy_that_is_none_closes_the_gate(shared: Shared) -> None:
    assert "not a tools.approval.policy.Policy" in str(shared.do("ls", shared.scope(policy="open")).result.message)


def test_the_gate_needs_no_loop(shared: Shared) -> None:
    """A dispatcher drives calls without a loop only if every hook is a plain function."""
    assert plan_hooks(shared.manager).is_sync


def test_an_appended_pattern_counts_everywhere(shared: Shared) -> None:
    """003-23, 003-24"""
    assert detect_dangerous_command("ls frobnicate") == []
    assert shared.do("ls frobnicate", shared.scope()).result.is_success
    DANGEROUS_PATTERNS.append((r"\bFROBNICATE\b", "frobnicates"))
    try:
        (finding,) = detect_dangerous_command("ls frobnicate")
        assert (finding.key, finding.why) == ("pattern@frobnicates", "frobnicates")
        assert shared.do("ls frobnicate", shared.scope()).result.is_pending
        shared.approve("ls frobnicate", shared.scope(), "session")
        assert shared.do("ls -l frobnicate", shared.scope()).result.is_success, "by the grant"
    finally:
        DANGEROUS_PATTERNS.pop()
    assert detect_dangerous_command("ls frobnicate") == []


def test_an_appended_pattern_that_can_not_be_read_is_asked_about() -> None:
    DANGEROUS_PATTERNS.append(("(", "broken"))
    try:
        (finding,) = detect_dangerous_command("ls")
        assert finding.level == "ask-once"
    finally:
        DANGEROUS_PATTERNS.pop()
