"""The doubles for tests of tools and plugins behave like the real things."""

from __future__ import annotations

import asyncio
import errno
import socket
from dataclasses import replace
from typing import Any

import httpx
import pytest

from toolcrib import (
    ExecRequest,
    ExecutedCall,
    ProviderTurn,
    RegistrationError,
    ShellState,
    StateKey,
    StateUpdate,
    StoreFailed,
    StreamEvent,
    ToolCallContext,
    ToolCallStatus,
    ToolOutput,
    ToolRegistry,
    ToolResult,
    tool,
)
from toolcrib.chat import Chat, Inbound, NotSent, Outbound
from toolcrib.testing import ChatServer, FakeEnvironment, FakeHost, FakePlatform, ScriptedSession, call_tool

REQUEST = ExecRequest("ls", timeout=5)


# -- FakeEnvironment ------------------------------------------------------------------------------------------------------


def test_commands_answer_what_the_test_says() -> None:
    environment = FakeEnvironment(commands={"ls": (3, b"a\n")})

    async def main() -> None:
        done = await environment.execute(REQUEST)
        assert (done.exit_code, done.stdout.head, done.cwd) == (3, b"a\n", "/project")
        unknown = await environment.execute(ExecRequest("nosuch", timeout=5))
        assert (unknown.exit_code, unknown.stdout.head) == (127, b"command not found")
        assert [request.command for request in environment.executed] == ["ls", "nosuch"]

    asyncio.run(main())


def test_commands_may_be_a_function() -> None:
    environment = FakeEnvironment(commands=lambda request: (0, request.command.upper().encode()))
    assert asyncio.run(environment.execute(REQUEST)).stdout.head == b"LS"


def test_a_process_prints_once_and_has_ended() -> None:
    async def main() -> None:
        process = await FakeEnvironment(commands={"ls": (3, b"a\n")}).spawn(REQUEST)
        assert await process.read() == ("stdout", b"a\n")
        assert await process.read() is None
        await process.write(b"x")
        await process.write(b"y")
        assert process.written == b"xy"  # type: ignore[attr-defined]  # the double's own
        assert await process.wait() == 3
        assert process.pid == 0  # no process has this id, so that no process can be killed by it

    asyncio.run(main())


def test_files_are_kept_in_memory() -> None:
    environment = FakeEnvironment({"/project/a/b.txt": b"12345"})

    async def main() -> None:
        await environment.write_file("/project/c", b"new")
        assert environment.files["/project/c"] == b"new"
        assert await environment.read_file("/project/a/b.txt") == b"12345"
        assert await environment.read_file("/project/a/b.txt", limit=2) == b"12"
        assert await environment.resolve("../x") == "/x"
        await environment.delete_file("/project/c")
        for gone in (environment.read_file("/project/c"), environment.delete_file("/project/c")):
            with pytest.raises(FileNotFoundError) as error:
                await gone
            assert (error.value.errno, error.value.filename) == (errno.ENOENT, "/project/c")

    asyncio.run(main())


def test_folders_are_a_part_of_names() -> None:
    environment = FakeEnvironment({"/project/a/b.txt": b"12345", "/project/a/sub/c": b"", "/project/ab": b""})

    async def main() -> None:
        file, folder = await environment.stat("/project/a/b.txt"), await environment.stat("/project/a/")
        assert file is not None
        assert (file.kind, file.size, file.mode, file.mtime) == ("file", 5, 0o644, 0.0)
        assert folder is not None
        assert (folder.kind, folder.mode, folder.mtime) == ("dir", 0o755, 0.0)
        assert await environment.stat("/project/nothing") is None
        listed = await environment.list_dir("/project/a")
        assert [(info.path, info.kind) for info in listed] == [("/project/a/b.txt", "file"), ("/project/a/sub", "dir")]
        for path, number in (("/project/a", errno.ENOTEMPTY), ("/project/nothing", errno.ENOENT)):
            with pytest.raises(OSError, match=path) as error:
                await environment.delete_folder(path)
            assert error.value.errno == number

    asyncio.run(main())


def test_what_a_test_sets_is_answered() -> None:
    environment = FakeEnvironment()

    async def main() -> None:
        assert (await environment.health()).ok is True
        environment.problem = "no engine"
        assert ((await environment.health()).ok, (await environment.health()).problem) == (False, "no engine")
        assert await environment.shell_state() is None
        environment.state = ShellState(aliases={"l": "ls"})
        assert await environment.shell_state() == environment.state
        assert not environment.closed
        await environment.close()
        assert environment.closed

    asyncio.run(main())


# -- ScriptedSession ------------------------------------------------------------------------------------------------------


def test_a_script_is_said_turn_by_turn() -> None:
    native = ProviderTurn("native")
    session = ScriptedSession("hello", [("read", {"path": "a"})], native, OSError("gone"))
    heard: list[StreamEvent] = []

    async def main() -> None:
        first = await session.stream_turn(heard.append)
        assert (first.assistant_text, heard) == ("hello", [StreamEvent("assistant_delta", "hello")])
        second = await session.stream_turn(heard.append)
        (call,) = second.tool_calls
        assert (call.name, call.args) == ("read", {"path": "a"})
        done = ExecutedCall(call, ToolResult.success("read", "text"), ToolCallStatus.SUCCEEDED)
        await session.append_tool_results(second, [done])
        assert session.results == [[done]]
        with pytest.raises(AssertionError, match="one result a call"):
            await session.append_tool_results(second, [])
        assert await session.stream_turn(heard.append) is native
        with pytest.raises(OSError, match="gone"):
            await session.stream_turn(heard.append)
        session.say("more")
        assert session.said == ["more"]
        assert not session.closed
        await session.close()
        assert session.closed

    asyncio.run(main())


# -- FakeHost and FakePlatform --------------------------------------------------------------------------------------------


def test_a_host_knows_a_message_by_its_chat_and_id() -> None:
    host = FakeHost(allowed=frozenset({"ann"}))

    async def main() -> None:
        message = Inbound(Chat("room"), "ann", "1", "hello")
        assert [await host.receive(message), await host.receive(message)] == ["kept", "known"]
        assert await host.receive(replace(message, chat=Chat("room", "thread"))) == "kept"
        assert await host.receive(replace(message, user="eve", message_id="2")) == "refused"
        host.failing = StoreFailed("the disk is full")
        with pytest.raises(StoreFailed):
            await host.receive(replace(message, message_id="3"))

    asyncio.run(main())
    assert [one.chat.key for one in host.received] == ["room", "room\0thread"]


def test_a_platform_shows_a_key_once_and_may_fail() -> None:
    async def main() -> None:
        platform = FakePlatform()
        first = await platform.send(Outbound(Chat("room"), "a", "k"))
        assert await platform.send(Outbound(Chat("room"), "a", "k")) == first
        await platform.send(Outbound(Chat("room"), "b", "k2", edits=first))
        platform.failing = [NotSent("lost", perhaps_sent=True), NotSent("gone", for_good=True)]
        for _ in range(2):
            with pytest.raises(NotSent):
                await platform.send(Outbound(Chat("room"), "c", "k3"))
        assert platform.texts(Chat("room")) == ["b", "c"]

    asyncio.run(main())


# -- ChatServer -----------------------------------------------------------------------------------------------------------


def test_a_chat_server_lists_its_models_and_nothing_else() -> None:
    with ChatServer(models=["a", "b"], answers={"/v1/props": {"n": 1}}) as server:
        assert [model["id"] for model in httpx.get(f"{server.base_url}/models").json()["data"]] == ["a", "b"]
        assert httpx.get(f"{server.base_url}/props?x=1").json() == {"n": 1}
        assert httpx.get(f"{server.base_url}/nothing").status_code == 404
        assert [path for path, _, body in server.asides if body is None] == ["/v1/models", "/v1/props?x=1", "/v1/nothing"]


def test_a_chat_server_at_the_end_of_its_script() -> None:
    with ChatServer() as server:
        answer = httpx.post(f"{server.base_url}/chat/completions", json={"n": 1})
        assert answer.status_code == 500
        assert "no more responses" in answer.text
        assert (server.requests, server.paths) == ([{"n": 1}], ["/v1/chat/completions"])


def test_a_tool_that_remembers_is_tested_with_what_it_knew() -> None:
    cities = StateKey("cities", list, scope="principal")
    total = StateKey("total", int)

    @tool(name="visit", registry=ToolRegistry(), state=[cities])
    def visit(city: str, ctx: ToolCallContext) -> Any:
        """Record a visit."""
        seen = ctx.state(cities) or []
        changes: list[Any] = [(cities, [*seen, city]), (total, StateUpdate(lambda n: (n or 0) + 1))]
        return ToolOutput(ToolResult.success("visit", len(seen)), changes)

    state: dict[StateKey[Any], Any] = {cities: ["Oslo"], total: None}
    assert call_tool(visit, {"city": "Bergen"}, state=state).result.data == 1
    assert state == {cities: ["Oslo", "Bergen"], total: 1}


# -- call_tool ------------------------------------------------------------------------------------------------------------


def test_a_function_that_was_made_a_tool_can_be_called() -> None:
    @tool(toolset="weather", registry=ToolRegistry())
    def forecast(city: str, days: int = 3) -> dict[str, object]:
        """Forecast the weather."""
        return {"city": city, "days": ["sunny"] * days}

    assert call_tool(forecast, {"city": "Oslo", "days": "2"}).result.data == {"city": "Oslo", "days": ["sunny", "sunny"]}
    assert "days" in str(call_tool(forecast, {"city": "Oslo", "days": "two"}).result.failure)


def test_a_function_that_was_not_is_told_how() -> None:
    with pytest.raises(RegistrationError, match="put @tool above the function"):
        call_tool(len, {})


def test_a_client_that_ends_within_its_request_is_no_fault_of_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    """A killed client ends like this; the server continues to answer others."""
    with ChatServer(ChatServer.text("hi")) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b""
        assert "hi" in httpx.post(f"{server.base_url}/chat/completions", json={}).text
        assert server.requests == [{}]
    assert capsys.readouterr().err == ""
