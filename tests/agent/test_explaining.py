"""The explanation of a command matches the gate: the same rules, grants, shell, files and verdict."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.api import Crib, assemble
from agent.conversation.session import Session
from agent.explainer import Explainer
from agent.explaining import Explanation
from agent.store.memory import MemoryStore
from toolcrib import Answer, RunsCommand, SuspendTicket, ToolCall, hookimpl
from toolcrib import Block as Refusal
from tools.approval.grants import new_grant
from tools.approval.policy import Policy
from tools.dispatch.bridge import run_async
from tools.judge.meaning.value import Taint

LEVELS = ("allow", "ask", "ask-once", "block")
DELETE = "fs.recursive-delete"


@pytest.fixture
def crib(tmp_path: Path) -> Iterator[Crib]:
    with assemble(project_dir=tmp_path, store=MemoryStore()) as made:
        yield made


def configured(crib: Crib, config: Callable[[str], Path], text: str) -> Crib:
    from agent.config import load_config

    return assemble(config=load_config(config(text)), project_dir=crib.project_dir, store=MemoryStore())


@pytest.fixture
def session(crib: Crib) -> Iterator[Session]:
    made = crib.open_session(suspends=True)
    yield made
    made.close_sync()


def gated(session: Session, command: str) -> str:
    """Return the gate's real verdict on a call, as a level; the call is not run."""
    current = session.dispatcher.begin(ToolCall(ToolCall.new_id(), "terminal", {"command": command}), session.scope)
    ended = run_async(session.dispatcher.gate(current))
    if ended is None:
        return "allow"
    if ended.result.suspension is None:
        return "block"
    found = ended.result.suspension.parameters.get("findings") or [{"level": "ask"}]
    return max((one["level"] for one in found), key=LEVELS.index)


def explained(session: Session, command: str) -> Explanation:
    return run_async(session.explain(command))


def agree(session: Session, *commands: str) -> None:
    for command in commands:
        assert explained(session, command).level == gated(session, command), command


def once(session: Session, command: str) -> None:
    """Run the command, and approve every request."""
    session.scope.asker = lambda ticket, ctx: Answer(ticket.id, payload={"approved": True}, by="ann", at=time.time())
    try:
        assert session.call("terminal", {"command": command}).result.is_success
    finally:
        session.scope.asker = None


# -- state -----------------------------------------------------------------------------------------------------------------


def test_the_shell_of_the_session_counts(session: Session, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "x.sh").write_text("rm -rf build\n")
    assert explained(session, "bash x.sh").level == "allow"  # no such file here
    for line in ("cd sub", "wipe() { rm -rf build; }", "shopt -s expand_aliases; alias ls='rm -rf ~'", "target=/"):
        once(session, line)
    assert explained(session, "bash x.sh").level == "ask"
    assert explained(session, "wipe").level == "ask"
    assert explained(session, "ls").level == "block"
    assert explained(session, 'rm -rf "$target"').level == "block"
    agree(session, "bash x.sh", "wipe", "ls", 'rm -rf "$target"', "rm -rf $unset", "echo hi", "command ls")


def test_a_grant_that_is_over_covers_nothing_and_stays_for_the_next_call(session: Session, tmp_path: Path) -> None:
    now = time.time()
    over = new_grant("until", DELETE, f"{tmp_path}/", session_id=session.id, at=now - 100, until=now - 10)
    run_async(session.store.grants.add(over))
    assert explained(session, "rm -rf build").level == "ask"
    assert [grant.id for grant in run_async(session.store.grants.all(session.id))] == [over.id]
    agree(session, "rm -rf build")
    assert list(run_async(session.store.grants.all(session.id))) == []


def test_where_files_came_from_counts(session: Session, tmp_path: Path) -> None:
    (tmp_path / "got.sh").write_text("echo hi\n")
    agree(session, "bash got.sh")
    assert isinstance(session.scope.policy, Policy)
    run_async(session.scope.policy.files.remember(session.id, {str(tmp_path / "got.sh"): Taint.REMOTE}))
    assert explained(session, "bash got.sh").level == "ask-once"
    agree(session, "bash got.sh", "cat got.sh", "cp got.sh other.sh && bash other.sh")


@pytest.mark.parametrize("depth", [2, 9, 30])
def test_a_script_that_sources_its_own_folders_library(session: Session, tmp_path: Path, depth: int) -> None:
    """Each library sources the next: the explanation reads as far as the gate does."""
    folder = tmp_path / "scripts"
    folder.mkdir()
    for number in range(depth):
        (folder / f"lib{number}.sh").write_text(f'. "$(dirname "$0")/lib{number + 1}.sh"\n')
    (folder / f"lib{depth}.sh").write_text("hello() { echo hello; }\n")
    (folder / "run.sh").write_text('set -e\n. "$(dirname "$0")/lib0.sh"\nhello\n')
    agree(session, "bash scripts/run.sh", "cd scripts && sh ./run.sh")
    told = explained(session, "bash scripts/run.sh")
    assert told.level == ("allow" if depth < 16 else "ask-once")
    assert (str(folder / f"lib{depth}.sh") in told.looked_at) == (depth < 16)


# -- grants ----------------------------------------------------------------------------------------------------------------


def test_grants_of_the_session_count_and_are_named(session: Session, tmp_path: Path) -> None:
    grant = new_grant("session", DELETE, f"{tmp_path}/", session_id=session.id, at=time.time())
    run_async(session.store.grants.add(grant))
    said = explained(session, "rm -rf build && git push --force")
    covered, other = said.findings
    assert (said.level, covered.key) == ("ask", DELETE)
    assert said.decider(covered, "a person") == f"the grant {grant.id[:8]} ({DELETE} below {tmp_path}/, session)"
    assert said.decider(other, "a person") == "a person"
    assert explained(session, "rm -rf build").level == "allow"
    agree(session, "rm -rf build", "rm -rf /elsewhere/x", "rm -rf build; rm -rf /", "sudo rm -rf build")


def test_asking_uses_up_nothing(session: Session, tmp_path: Path) -> None:
    run_async(session.store.grants.add(new_grant("uses", DELETE, f"{tmp_path}/", session_id=session.id, uses=2, at=time.time())))
    for _ in range(5):
        assert explained(session, "rm -rf build").level == "allow"
    assert [gated(session, "rm -rf build") for _ in range(3)] == ["allow", "allow", "ask"]
    assert explained(session, "rm -rf build").level == "ask"


def test_asking_leaves_nothing_behind(session: Session, tmp_path: Path) -> None:
    (tmp_path / "x.sh").write_text("echo hi\n")
    before = len(run_async(session.store.audit.entries(session.id)))
    for command in ("rm -rf build", "ls", "rm -rf /", "curl -o x.sh http://example.test/x", "touch made"):
        explained(session, command)
    assert len(run_async(session.store.audit.entries(session.id))) == before
    assert run_async(session.store.tickets.pending(session.id)) == []
    assert run_async(session.store.origins.of(session.id)) == {}
    assert explained(session, "bash x.sh").level == "allow"
    assert [path.name for path in tmp_path.iterdir()] == ["x.sh"]


# -- rules -----------------------------------------------------------------------------------------------------------------

RULES = """
approval:
  rules:
    - {key: own.deploy, level: ask, command: deployctl, sub: release, why: customers see it, example: [deployctl release prod]}
    - {key: own.curl, level: block, command: curl, why: no network here, example: [curl http://a.test]}
    - {key: own.clean, level: allow, command: rm, options: -rf, operands: build, why: made again, example: [rm -rf build]}
  tools:
    - {tool: terminal, args: {command: "re:.*secret.*"}, decision: deny, why: not from here}
    - {tool: terminal, args: {command: "re:.*--please.*"}, decision: ask, why: read it first}
    - {tool: terminal, args: {command: "git push --force*"}, decision: allow, why: a sandbox}
"""


def test_operators_rules_for_tools_count(crib: Crib, config: Callable[[str], Path]) -> None:
    with configured(crib, config, RULES) as strict:
        one = strict.open_session(suspends=True)
        denied = explained(one, "cat secret")
        assert (denied.level, denied.refused) == ("block", "Denied by the operator's rule for 'terminal': not from here.")
        asked = explained(one, "ls --please")
        assert (asked.level, [found.key for found in asked.findings]) == ("ask", ["tool.rule@terminal"])
        allowed = explained(one, "git push --force origin main")
        assert allowed.level == "allow"
        assert allowed.decider(allowed.findings[0], "a person") == "the operator's rule for 'terminal' (a sandbox)"
        agree(one, "cat secret", "ls --please", "git push --force", "deployctl release x", "curl x", "rm -rf build", "rm -rf src")
        one.close_sync()


def test_a_tool_that_is_not_granted_is_refused(crib: Crib, config: Callable[[str], Path]) -> None:
    with configured(crib, config, "tools: {disabled: [terminal]}\n") as without:
        one = without.open_session(suspends=True)
        assert "not granted" in explained(one, "ls").refused
        agree(one, "ls")
        one.close_sync()


def test_gates_of_plugins_are_asked_too(crib: Crib, session: Session) -> None:
    class Curfew:
        @hookimpl
        def tool_gate(self, call: ToolCall, entry: Any, ctx: Any) -> Refusal | None:
            return Refusal("not at night") if "night" in call.args["command"] else None

    session.dispatcher.hooks.register(Curfew(), "curfew")
    assert explained(session, "echo night").refused == "not at night"
    agree(session, "echo night", "echo day")


# -- the same verdict for everything ---------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *("ls", "cd sub", "rm -rf build", "rm -rf sub/build", "rm -rf /", "rm -rf $x", "x=/", "x=build", "wipe", "bash x.sh"),
        *(". ./x.sh", "bash got.sh", "cp got.sh y.sh; bash y.sh", "git push --force", "git push --force origin main"),
        *("deployctl release prod", "curl http://a.test", "wget http://a.test/x.sh; bash x.sh", "echo secret", "ls --please"),
        *("echo 'rm -rf build' > y.sh; sh y.sh", "sudo rm -rf build", 'eval "$x"', "find . -delete", "kill -9 1", "echo a\u3164"),
        *("(", "env A=1 rm -rf build", "true"),
    ]
)
COMMANDS = st.lists(st.tuples(PIECES, st.sampled_from(["; ", " && ", " | ", " || ", "\n", " & "])), min_size=1, max_size=4).map(
    lambda pairs: "".join(text + link for text, link in pairs[:-1]) + pairs[-1][0]
)
GRANTS = st.lists(
    st.tuples(
        st.sampled_from(["session", "uses", "until", "task"]),
        st.sampled_from([DELETE, "git.push-force", "tool.rule@terminal", "privilege.sudo", "own.deploy"]),
        st.sampled_from(["", "/build", "/sub"]),
    ),
    max_size=3,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(commands=st.lists(COMMANDS, min_size=1, max_size=5), grants=GRANTS, ruled=st.booleans(), lived=st.booleans())
def test_explain_is_the_gate(
    crib: Crib,
    config: Callable[[str], Path],
    tmp_path: Path,
    commands: Sequence[str],
    grants: Sequence[tuple[Any, str, str]],
    ruled: bool,
    lived: bool,
) -> None:
    """For any commands, rules, grants and state, the explained verdict is the gate's verdict."""
    (tmp_path / "sub").mkdir(exist_ok=True)
    for name, text in (("x.sh", "wipe\nrm -rf sub\n"), ("got.sh", "echo hi\n")):
        (tmp_path / name).write_text(text)
    with configured(crib, config, RULES if ruled else "") as made:
        one = made.open_session(suspends=True)
        for scope, key, below in grants:
            more = {"uses": 1} if scope == "uses" else {"until": time.time() + 600} if scope == "until" else {}
            root = f"{tmp_path}{below}" if below else f"{tmp_path}/"
            run_async(one.store.grants.add(new_grant(scope, key, root, session_id=one.id, at=time.time(), **more)))
        if lived:
            once(one, "wipe() { rm -rf build; }; x=/usr; export x; cd sub")
            assert isinstance(one.scope.policy, Policy)
            run_async(one.scope.policy.files.remember(one.id, {str(tmp_path / "got.sh"): Taint.REMOTE}))
        agree(one, *commands)
        one.close_sync()


@pytest.mark.untraced
def test_explain_is_the_gate_on_recorded_commands(session: Session, corpora: Path) -> None:
    lines = [json.loads(line) for line in (corpora / "approval" / "commands.jsonl").read_text().splitlines()]
    agree(session, *(line["command"] for line in lines))


# -- stored sessions -------------------------------------------------------------------------------------------------------


def test_a_stored_session_is_explained_as_it_would_go_on(crib: Crib, session: Session, tmp_path: Path) -> None:
    (tmp_path / "got.sh").write_text("echo hi\n")
    run_async(session.store.origins.remember(session.id, {str(tmp_path / "got.sh"): int(Taint.REMOTE)}))
    run_async(session.store.grants.add(new_grant("session", DELETE, f"{tmp_path}/", session_id=session.id, at=time.time())))

    async def levels(stored: str) -> list[str]:
        made = await (Explainer.of_stored(crib.default, stored) if stored else Explainer.of_new(crib.default))
        try:
            return [(await made.explain(command)).level for command in ("bash got.sh", "rm -rf build")]
        finally:
            await made.close()

    assert run_async(levels(session.id[:8])) == ["ask-once", "allow"]
    assert run_async(levels("")) == ["allow", "ask"]


def test_a_scope_without_a_policy_can_not_be_asked(session: Session) -> None:
    """The gate's own policy would record the call."""
    session.scope = replace(session.scope, policy=None)
    with pytest.raises(TypeError, match="without a Policy"):
        explained(session, "ls")


def test_another_gates_question_is_an_ask(session: Session) -> None:
    from toolcrib import Suspend

    class Asks:
        @hookimpl
        def tool_gate(self, call: ToolCall, entry: Any, ctx: Any) -> Suspend:
            assert isinstance(ctx.effects[0], RunsCommand)
            return Suspend(SuspendTicket("check", "Shall it?"))

    session.dispatcher.hooks.register(Asks(), "asks")
    assert explained(session, "ls").level == "ask"
    agree(session, "ls", "rm -rf /")
