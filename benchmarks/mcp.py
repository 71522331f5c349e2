"""MCP servers: a call and a first call against the SDK's own client, a start with many locked servers, and idle servers."""

from __future__ import annotations

import asyncio
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.core import CannotMeasureError, Figure, clean_environment, median_of_each

_CALL, _COLD, _START, _IDLE = 1.5, 1.2, 1.05, 5.0
_RUNS = 5
_SERVER = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("bench")

@server.tool()
def add(a: int, b: int) -> int:
    return a + b

server.run()
"""
_PROMPT = "from agent.api import assemble\nwith assemble() as crib: crib.open_session(platform='api').definitions"
_CONFIRM = "from agent.config import load_config\nfrom agent.policy.confirmation import confirm\nconfirm(load_config())"
_MODES = {"legacy": "legacy", "2026": "auto"}


class _Home(NamedTuple):
    """The part of a workspace that a server needs."""

    config: Any
    setting: Any
    project_dir: Path


def measure(*, quick: bool) -> list[Figure]:
    """Return times in ms, and processor time of idle servers in ms per second."""
    if find_spec("mcp") is None:
        raise CannotMeasureError("the SDK of MCP is missing: pip install 'toolcrib[mcp]'")
    with tempfile.TemporaryDirectory(prefix="toolcrib-mcp-") as made:
        folder = Path(made)
        (folder / "server.py").write_text(_SERVER)
        figures = [_of_calls(folder, era, mode, quick=quick) for era, mode in _MODES.items()]
        return [*figures, *_of_first_calls(folder, quick=quick), _of_starts(folder, quick=quick)]


class _Ours:
    """A locked server behind the dispatcher and the approval gate, without a store."""

    def __init__(self, folder: Path, mode: str) -> None:
        from agent.config import load_config
        from agent.mcp.discovery import McpServers
        from agent.mcp.lock import LockedServer, LockedTool, lock_path, write_server
        from agent.mcp.where import digest_of
        from model_tools import new_hooks
        from toolcrib.contract.context import RunIdentity
        from toolcrib.contract.registry import registry
        from toolcrib.contract.tool_sources import ToolSources
        from toolcrib.contract.types import Answer
        from tools.approval.gate import ApprovalGate
        from tools.approval.grants import MemoryGrants
        from tools.dispatch.pipeline import Dispatcher
        from tools.dispatch.scope import CallScope
        from tools.environments import open_environment
        from tools.judge.setting import Setting

        file = folder / "config.yaml"
        server = f"{{command: ['{sys.executable}', '{folder / 'server.py'}'], protocol: {mode}}}"
        file.write_text(f"sandbox: {{mode: none}}\nmcp: {{servers: {{bench: {server}}}}}")
        config = load_config(file)
        listed = asyncio.run(_listed(folder, mode))
        locked = LockedServer(digest_of(config, config.mcp.servers["bench"]), [LockedTool("add", "add", listed)])
        write_server(lock_path(file), "bench", locked)
        tools = registry.child()
        home = _Home(config, Setting(), folder)
        hooks = new_hooks(ApprovalGate(MemoryGrants(), project_root=str(folder)))
        self._end = McpServers(config, tools, lambda _folder: home, list).begin(ToolSources(tools), hooks)
        self._dispatcher = Dispatcher(tools, hooks)
        self._scope = CallScope(
            identity=RunIdentity("bench"),
            open_environment=lambda: open_environment("local", cwd=str(folder)),
            asker=lambda ticket, _ctx: Answer(ticket.id, payload={"approved": True, "scope": "session"}),
        )

    async def call(self, number: int) -> None:
        from toolcrib.contract.types import ToolCall

        done = await self._dispatcher.call(ToolCall(ToolCall.new_id(), "add", {"a": 1, "b": number}), self._scope)
        if done.result.data != {"result": 1 + number}:
            raise CannotMeasureError(f"the server answered {done.result}")

    async def close(self) -> None:
        await asyncio.to_thread(self._end)
        await self._scope.close()


async def _listed(folder: Path, mode: str) -> dict[str, Any]:
    from agent.mcp.lock import definition_of

    async with _client(folder, mode) as client:
        [tool] = (await client.list_tools()).tools
        return definition_of(tool.model_dump(mode="json", by_alias=True, exclude_none=True))


def _client(folder: Path, mode: str) -> Any:
    from mcp import Client, StdioServerParameters

    return Client(StdioServerParameters(command=sys.executable, args=[str(folder / "server.py")]), mode=mode, cache=None)


def _of_calls(folder: Path, era: str, mode: str, *, quick: bool) -> Figure:
    rounds = 20 if quick else 300
    ours, bare = [], []
    for _ in range(1 if quick else _RUNS):
        bare.append(asyncio.run(_bare_calls(folder, mode, rounds)))
        ours.append(asyncio.run(_our_calls(folder, mode, rounds)))
    against = "the SDK's client; median of a run, the quietest run"
    return Figure(f"mcp.call_{era}", min(ours), "ms", min(bare), _CALL, "ratio", against)


async def _our_calls(folder: Path, mode: str, rounds: int) -> float:
    made = await asyncio.to_thread(_Ours, folder, mode)
    try:
        return await _median(made.call, rounds)
    finally:
        await made.close()


async def _bare_calls(folder: Path, mode: str, rounds: int) -> float:
    async with _client(folder, mode) as client:
        await client.list_tools()
        return await _median(lambda number: client.call_tool("add", {"a": 1, "b": number}), rounds)


async def _median(call: Callable[[int], Awaitable[object]], rounds: int) -> float:
    times = []
    for number in range(rounds + 5):
        began = time.perf_counter()
        await call(number)
        times.append(time.perf_counter() - began)
    return statistics.median(times[5:]) * 1e3


def _of_first_calls(folder: Path, *, quick: bool) -> list[Figure]:
    """Return the time of a start with its first call, and the processor time that the idle server then costs this process."""
    ours, bare, idle = [], [], []
    for _ in range(1 if quick else _RUNS):
        bare.append(asyncio.run(_bare_first_call(folder)))
        took, used = asyncio.run(_our_first_call(folder, 0.5 if quick else 5.0))
        ours.append(took)
        idle.append(used)
    return [
        Figure("mcp.cold", statistics.median(ours), "ms", statistics.median(bare), _COLD, "ratio", "the SDK's client"),
        Figure("mcp.idle", statistics.median(idle), "ms/s", 0.0, _IDLE, "value", "processor time beside an idle server"),
    ]


async def _bare_first_call(folder: Path) -> float:
    began = time.perf_counter()
    async with _client(folder, "auto") as client:
        await client.call_tool("add", {"a": 1, "b": 1})
        return (time.perf_counter() - began) * 1e3


async def _our_first_call(folder: Path, seconds: float) -> tuple[float, float]:
    made = await asyncio.to_thread(_Ours, folder, "auto")
    try:
        began = time.perf_counter()
        await made.call(1)
        took = (time.perf_counter() - began) * 1e3
        used = time.process_time()
        await asyncio.sleep(seconds)
        return took, (time.process_time() - used) * 1e3 / seconds
    finally:
        await made.close()


def _of_starts(folder: Path, *, quick: bool) -> Figure:
    """Return the processor time until a session has its tools, with 50 locked servers of four tools each, against none."""
    from agent.config import load_config
    from agent.mcp.lock import LockedServer, LockedTool, lock_path, write_server
    from agent.mcp.where import digest_of

    homes = {"none": folder / "none", "many": folder / "many"}
    schema = {"type": "object", "properties": {"text": {"type": "string"}, "count": {"type": "integer"}}, "required": ["text"]}
    for name, home in homes.items():
        file = home / "toolcrib/config.yaml"
        file.parent.mkdir(parents=True)
        servers = [f"    s{number}: {{command: [python3, server-{number}]}}\n" for number in range(50 if name == "many" else 0)]
        file.write_text("mcp:\n  servers:\n" + "".join(servers) if servers else "")
        file.chmod(0o600)
        config = load_config(file)
        for server in config.mcp.servers:
            tools = [
                LockedTool(one, f"{server}.{one}", {"description": f"Does {one}.", "inputSchema": schema})
                for one in ("list", "read", "write", "find")
            ]
            write_server(lock_path(file), server, LockedServer(digest_of(config, config.mcp.servers[server]), tools))
        subprocess.run([sys.executable, "-c", _CONFIRM], check=True, env=clean_environment(home), cwd=home)
    runs = {name: _prompted(home) for name, home in homes.items()}
    for run in runs.values():
        run()
    took = {name: seconds * 1e3 for name, seconds in median_of_each(runs, 1 if quick else 20).items()}
    return Figure("mcp.start", took["many"], "ms", took["none"], _START, "ratio", "the same without servers; processor time")


def _prompted(home: Path) -> Callable[[], float]:
    def run() -> float:
        before = _of_children()
        subprocess.run([sys.executable, "-c", _PROMPT], check=True, env=clean_environment(home), cwd=home)
        return _of_children() - before

    return run


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
