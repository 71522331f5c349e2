"""The composition root: what a session receives from configuration, toolsets and plugins."""

from __future__ import annotations

import asyncio
import json
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import Agent, Crib, assemble
from agent.config import config_path, load_config
from agent.conversation.session import Session
from toolcrib import (
    Answer,
    ConfigError,
    RegistrationError,
    SuspendTicket,
    ToolCall,
    ToolCallContext,
    ToolcribError,
    ToolsetError,
    registry,
    tool,
)
from toolcrib.testing import ChatServer
from tools import alive
from tools.dispatch.bridge import close_loop, run_async

FILES = ["read_file", "write_file", "patch", "search_files"]
PLUGIN = """
from toolcrib import Block, hookimpl

@hookimpl
def register_tools(registry):
    registry.register("forecast", "weather", {"description": "d"}, lambda args: "sunny")

@hookimpl
def register_toolsets(add):
    add("sky", {"description": "Weather and plans", "tools": ["forecast"], "includes": ["todo"]})

@hookimpl
def register_command(add):
    add("sky", __import__("types").SimpleNamespace(HELP="h", configure=print, run=print))

@hookimpl
def tool_gate(call):
    if call.name == "terminal" and "prod" in call.args["command"]:
        return Block("not on prod")
"""


def configure(text: str) -> Path:
    path = config_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text))
    return path


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "project"
    folder.mkdir()
    yield folder
    close_loop()


@pytest.fixture
def crib(project: Path) -> Iterator[Crib]:
    with assemble(project_dir=project) as made:
        yield made


def run(crib: Crib, name: str, args: Any, **options: Any) -> Any:
    session = crib.open_session(**options)
    try:
        return session.call(name, args)
    finally:
        session.close_sync()


def test_a_fresh_install_gets_the_platforms_preset(crib: Crib) -> None:
    assert crib.granted("cli") == [
        "terminal",
        "process",
        *FILES,
        "todo",
        "memory",
        "session_search",
        "delegate_task",
        "clarify",
        "cronjob",
    ]
    assert crib.granted("cron") == ["terminal", "process", *FILES, "todo", "memory", "session_search", "delegate_task"]
    assert crib.granted("cli", enabled=["file"], disabled=["safe"]) == ["write_file", "patch"]
    with pytest.raises(ToolsetError, match="unknown platform 'telegramm'; known: acp, api, cli"):
        crib.granted("telegramm")


def test_a_session_runs_where_the_project_is(crib: Crib, project: Path) -> None:
    (project / "a.txt").write_text("hello\n")
    assert run(crib, "terminal", {"command": "pwd"}).result.data["output"].strip() == str(project)
    assert "hello" in json.dumps(run(crib, "read_file", {"path": "a.txt"}).result.data)


def test_a_loop_tool_has_its_handler_in_a_session(crib: Crib) -> None:
    """003-18"""
    executed = run(crib, "todo", {"todos": [{"content": "write tests", "status": "pending"}]})
    assert executed.result.data["counts"]["total"] == 1


def test_operators_narrow_by_toolset_tool_and_platform(project: Path) -> None:
    configure("""
        toolsets: {disabled: [clarify], custom: {reading: {tools: [read_file], includes: [todo]}}}
        tools: {disabled: [patch]}
        platforms:
          telegram: {enabled_toolsets: [reading], disabled_tools: [todo], allow_local: true}
    """)
    with assemble(project_dir=project) as crib:
        without_patch = [
            "terminal",
            "process",
            "read_file",
            "write_file",
            "search_files",
            "todo",
            "memory",
            "session_search",
            "delegate_task",
            "cronjob",
            "send_message",
        ]
        assert crib.granted("cli") == without_patch
        assert crib.granted("telegram") == ["read_file"]
        reasons = {line.name: line.reason for line in crib.explain("telegram")}
        assert reasons["read_file"] is None
        assert reasons["todo"] == "disabled in the configuration (disabled tools)"
        assert reasons["terminal"] == "not among the toolsets of the platform 'telegram'"
        refused = run(crib, "terminal", {"command": "true"}, platform="telegram")
        assert "not granted to this session; granted: read_file" in str(refused.result.message)


def test_a_broken_configuration_is_refused_whole(project: Path) -> None:
    configure("tools: {disabled: [terminal]}\napproval: {gate_timeout: soon}\n")
    with pytest.raises(ConfigError, match=r"config.yaml:2.*gate_timeout"):
        assemble(project_dir=project)


def test_an_unknown_toolset_in_the_configuration_names_the_nearest(project: Path) -> None:
    configure("toolsets: {enabled: [terminl]}\n")
    with assemble(project_dir=project) as crib, pytest.raises(ToolsetError, match="did you mean 'terminal'"):
        crib.open_session()


def test_only_enabled_plugins_bring_tools_toolsets_gates_and_commands(project: Path) -> None:
    """003-5"""
    folder = config_path().parent / "plugins"
    folder.mkdir(parents=True)
    (folder / "weather.py").write_text(PLUGIN)
    with assemble(project_dir=project) as crib:
        assert "forecast" not in crib.granted("cli")
    configure("plugins: {enabled: [weather]}\n")
    with assemble(config=load_config(), project_dir=project) as crib:
        assert crib.granted("cli")[-1] == "forecast"
        assert set(crib.granted("cli", enabled=["sky"])) == {"forecast", "todo"}
        assert list(crib.commands) == ["sky"]
        assert run(crib, "forecast", {}).result.data == "sunny"
        assert "not on prod" in str(run(crib, "terminal", {"command": "echo prod"}).result.message)
    with assemble(project_dir=project, config=crib.config.__class__()) as after:
        assert "forecast" not in after.registry.names()


@pytest.mark.parametrize(
    ("hook", "adds", "reason"),
    [
        ("command", "add('brew', object())", "the command 'brew' has no HELP, configure, run"),
        ("environment", "add('local', lambda cwd: None)", "the backend 'local' is toolcrib's own"),
        ("environment", "add('vm', 3)", "the backend 'vm' needs a function that opens it, got 3"),
        ("environment", "add('vm', print); add('vm', print)", "the backend 'vm' already exists"),
        ("provider", "add('chat', print)", "the provider 'chat' is toolcrib's own"),
        ("provider", "add('mine', 'x')", "the provider 'mine' needs a function that opens it, got 'x'"),
    ],
)
def test_what_a_plugin_may_not_add(project: Path, hook: str, adds: str, reason: str) -> None:
    """The fault is found when the plugin is loaded, not when its addition is used."""
    folder = config_path().parent / "plugins"
    folder.mkdir(parents=True)
    (folder / "odd.py").write_text(f"from toolcrib import hookimpl\n@hookimpl\ndef register_{hook}(add):\n    {adds}\n")
    configure("plugins: {enabled: [odd]}\n")
    with assemble(project_dir=project) as crib:
        assert [(info.loaded, reason in info.error) for info in crib.plugins] == [(False, True)], crib.plugins


def approve(scope: str) -> Any:
    asked: list[SuspendTicket] = []

    def asker(ticket: SuspendTicket, ctx: ToolCallContext) -> Answer:
        asked.append(ticket)
        return Answer(ticket.id, payload={"approved": True, "scope": scope}, by="me")

    asker.asked = asked  # type: ignore[attr-defined]  # how the test sees the requests
    return asker


def test_approval_for_a_session_holds_in_it_and_not_in_the_next(crib: Crib, project: Path) -> None:
    """003-25, 003-26"""
    for _ in range(2):
        asker = approve("session")
        session = crib.open_session(asker=asker)
        for name in ("one", "two"):
            (project / name).mkdir()
            assert session.call("terminal", {"command": f"rm -rf {name}"}).result.is_success
            assert not (project / name).exists()
        session.close_sync()
        assert len(asker.asked) == 1


def test_once_is_once(crib: Crib, project: Path) -> None:
    asker = approve("once")
    session = crib.open_session(asker=asker)
    for _ in range(2):
        (project / "build").mkdir()
        session.call("terminal", {"command": "rm -rf build"})
    session.close_sync()
    assert len(asker.asked) == 2


def test_always_is_written_and_holds_in_the_next_process(project: Path) -> None:
    """003-27"""
    configure("# mine\ntools: {timeout: 60}  # kept\n")
    asker = approve("always")
    with assemble(project_dir=project) as crib:
        (project / "build").mkdir()
        assert run(crib, "terminal", {"command": "rm -rf build"}, asker=asker).result.is_success
    written = config_path().read_text()
    assert "command_allowlist" in written
    assert "# mine" in written
    assert "# kept" in written
    with assemble(project_dir=project) as crib:
        (project / "build").mkdir()
        assert run(crib, "terminal", {"command": "rm -rf build"}).result.is_success
        (project / "other").mkdir()
        assert run(crib, "terminal", {"command": "rm -rf other"}).result.is_error


def test_file_tools_are_judged_like_the_shell(crib: Crib) -> None:
    home = Path.home()
    for name, args in (
        ("write_file", {"path": str(home / ".bashrc"), "content": "alias ls=rm"}),
        ("write_file", {"path": str(home / ".ssh" / "authorized_keys"), "content": "x"}),
        ("write_file", {"path": str(crib.project_dir / ".git" / "hooks" / "pre-commit"), "content": "x"}),
        ("terminal", {"command": "echo alias >> ~/.bashrc"}),
    ):
        refused = run(crib, name, args)
        assert refused.result.is_error, args
        assert "no user can be asked here" in str(refused.result.message), args
    assert not (home / ".bashrc").exists()


def test_its_own_files_are_out_of_reach_whatever_is_granted(crib: Crib) -> None:
    """No file that the model can write may loosen a rule."""
    path = configure("tools: {timeout: 60}\n")
    asker = approve("session")
    for name, args in (
        ("write_file", {"path": str(path), "content": "x"}),
        ("patch", {"path": str(path), "old": "60", "new": "61"}),
        ("terminal", {"command": f"echo x > {path}"}),
        ("terminal", {"command": f"cd {path.parent} && rm config.yaml"}),
        ("write_file", {"path": str(path.parent / "plugins" / "evil.py"), "content": "x"}),
    ):
        assert run(crib, name, args, asker=asker).result.is_error, args
    assert asker.asked == []
    assert path.read_text() == "tools: {timeout: 60}\n"


def test_a_link_to_its_own_files_is_seen_through(crib: Crib, project: Path) -> None:
    path = configure("tools: {timeout: 60}\n")
    (project / "innocent").symlink_to(path.parent)
    executed = run(crib, "write_file", {"path": "innocent/config.yaml", "content": "x"}, asker=approve("once"))
    assert executed.result.is_error
    assert path.read_text() == "tools: {timeout: 60}\n"


def test_everything_is_audited(crib: Crib) -> None:
    run(crib, "terminal", {"command": "rm -rf build"}, asker=approve("once"))
    run(crib, "terminal", {"command": "rm -rf build"})
    decisions = [(entry.tool, entry.by) for entry in run_async(crib.store.audit.entries())]
    assert ("terminal", "me") in decisions
    assert ("terminal", "nobody") in decisions


def test_a_turn_of_a_session(crib: Crib, project: Path) -> None:
    (project / "a").write_text("a\n")
    session = crib.open_session()

    async def go() -> list[Any]:
        try:
            return await session.calls(
                [ToolCall("1", "read_file", {"path": "a"}), ToolCall("2", "terminal", {"command": "echo b"})]
            )
        finally:
            await session.close()

    one, two = asyncio.run(go())
    assert one.result.is_success
    assert two.result.data["output"] == "b\n"


# -- an Agent that is used wrongly -----------------------------------------------------------------------------------


@pytest.mark.parametrize("asker", [42, lambda ticket: None])
def test_an_asker_that_can_not_be_called_is_refused_at_once(project: Path, asker: Any) -> None:
    with pytest.raises(ConfigError, match=r"asker: expected asker\(ticket, ctx\)"):
        Agent(project_dir=project, asker=asker)


def test_an_agent_is_closed_from_sync_code_and_says_so(project: Path) -> None:
    with ChatServer(ChatServer.text("hello")) as server:
        agent = Agent(model="m", base_url=server.base_url, project_dir=project)
        assert agent.ask("hi").text == "hello"
        with pytest.raises(ConfigError, match="schema: expected a JSON Schema"):
            agent.ask("hi", schema="x")  # type: ignore[arg-type]  # wrong on purpose
        agent.close()
        agent.close()
        with pytest.raises(ToolcribError, match=r"this Agent is closed; Agent\(resume="):
            agent.ask("again")


def test_what_on_event_raises_is_logged_and_the_run_goes_on(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: object) -> None:
        raise KeyError("mine")

    with (
        ChatServer(ChatServer.text("hello")) as server,
        Agent(model="m", base_url=server.base_url, project_dir=project, on_event=fail) as agent,
    ):
        assert agent.ask("hi").text == "hello"
    assert "on_event failed for " in caplog.text


def test_asking_in_a_running_event_loop_warns_once(project: Path) -> None:
    """The loop stands still until the answer; ``aask`` and a plain program's ``ask`` do not warn."""

    async def main(agent: Agent) -> None:
        with pytest.warns(RuntimeWarning, match="blocks the running event loop.* await agent.aask") as warned:
            assert agent.ask("one").text == "a"
        assert warned[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert agent.ask("two").text == "b"
            assert (await agent.aask("three")).text == "c"

    replies = [ChatServer.text(text) for text in "abcd"]
    with ChatServer(*replies) as server, Agent(model="m", base_url=server.base_url, project_dir=project) as agent:
        asyncio.run(main(agent))
        assert agent.ask("four").text == "d"


@pytest.fixture
def stock() -> Iterator[Any]:
    """A tool of the program, in a toolset with another one."""

    @tool(toolset="shop")
    def stock(item: str) -> int:
        """Return how many of an item there are."""
        return 7

    @tool(toolset="shop")
    def order(item: str) -> str:
        """Order an item."""
        return "ordered"

    yield stock
    for name in ("stock", "order"):
        registry.unregister(name)


def test_an_agent_with_only_the_given_tools(project: Path, stock: Any) -> None:
    """The agent gets neither other tools of their toolsets nor the platform's. Names of registered tools are accepted too."""
    calls = ChatServer.calls(("stock", {"item": "lamp"}), ("order", {"item": "lamp"}), ("terminal", {"command": "true"}))
    with ChatServer(calls, ChatServer.text("Seven.")) as server:
        options: dict[str, Any] = {"model": "m", "base_url": server.base_url, "project_dir": project}
        with Agent(tools=[stock, "read_file"], **options) as agent:
            assert agent.ask("How many lamps?").text == "Seven."
            session = agent.session.id
        told = server.requests[1]["messages"][-3:]
        assert sorted(one["function"]["name"] for one in server.requests[0]["tools"]) == ["read_file", "stock"]
        assert told[0]["content"] == "7"
        assert all("not granted to this session" in one["content"] for one in told[1:])
        with Agent(resume=session, project_dir=project, tools=[stock]) as agent:
            assert agent.session.names == ["stock"]
        with Agent(tools=[], **options) as agent:
            assert agent.session.names == []


def test_tools_that_are_none_are_refused(project: Path) -> None:
    with pytest.raises(RegistrationError, match="put @tool above the function"):
        Agent(project_dir=project, tools=[len])
    with pytest.raises(ToolsetError, match=r"unknown tool 'red_file'; known: .*read_file"):
        Agent(project_dir=project, tools=["red_file"])


def test_leaving_the_block_ends_the_processes_of_sessions_that_are_still_open(tmp_path: Path) -> None:
    """003-30"""
    configure("sandbox: {mode: none}")

    def started(session: Session) -> int:
        result = session.call("terminal", {"command": "exec sleep 600", "background": True}).result
        assert result.is_success, result.message
        return int(result.data["pid"])

    with assemble(config=load_config(), project_dir=tmp_path) as crib:
        pids = [started(crib.open_session(platform="api")), started(crib.open_session(platform="api"))]
        assert all(map(alive.started, pids))
    assert not any(map(alive.started, pids))

    async def go() -> int:
        async with assemble(config=load_config(), project_dir=tmp_path) as crib:
            session = await crib.open(platform="api")
            return await asyncio.to_thread(started, session)

    assert not alive.started(asyncio.run(go()))
