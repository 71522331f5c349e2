"""Ways to servers: a program in a sandbox of its own, or an address."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agent.backends import Backends, Location
from agent.config import Config, secret
from agent.config._mcp import McpServer
from agent.mcp.extra import require_sdk
from agent.mcp.hub import Place
from agent.mcp.logins import Logins
from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.dataclass import replace
from toolcrib.contract.environment import Environment
from toolcrib.contract.errors import EnvironmentFailed, ExecutionFailed
from toolcrib.contract.regex import Regex
from tools.approval.policy import Policy
from tools.environments.own_files import OwnFiles
from tools.judge.setting import Setting

if TYPE_CHECKING:
    from agent.mcp.connection import ServerLink


_SECRET = Regex(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
MOST_BYTES = 64 << 20
"""Bytes of one message."""


class ServerHome(Protocol):
    """The part of a workspace that its servers need."""

    @property
    def config(self) -> Config: ...

    @property
    def setting(self) -> Setting: ...

    @property
    def project_dir(self) -> Path: ...


class ServerReach:
    """Reaches servers for the sessions of one process. ``workspace`` returns the workspace of a folder."""

    def __init__(self, workspace: Callable[[str], ServerHome]) -> None:
        self._workspace = workspace

    def place_of(self, server: McpServer, ctx: ToolCallContext) -> Place:
        """See ReachesServers. Two principals or two projects never share a program, because it may keep what it reads."""
        policy = ctx.policy
        folder = policy.project_root if isinstance(policy, Policy) else None
        return Place(ctx.run_identity.principal.key, folder or "")

    async def link(self, name: str, server: McpServer, place: Place) -> ServerLink:
        """See ReachesServers."""
        require_sdk()
        workspace = self._workspace(place.folder)
        if server.url:
            return _over_http(workspace.config, Logins(workspace.config.folder, name, server, place.principal))
        from agent.mcp.connection import ServerLink
        from agent.mcp.stdio import start_program

        environment = await asyncio.to_thread(open_for, workspace, name, server)
        try:
            program = await start_program(environment, server.command, variables_of(workspace.config, server))
        except BaseException:
            await environment.close()
            raise

        async def close() -> None:
            await program.close()
            with suppress(EnvironmentFailed, OSError):
                await environment.close()

        def why() -> str:
            return "; ".join(part for part in (program.why, program.said[-300:]) if part)

        return ServerLink(program.streams(), program.ended.wait, why, close)


def _over_http(config: Config, logins: Logins) -> ServerLink:
    import httpx2
    from mcp.client.sse import sse_client
    from mcp.client.streamable_http import streamable_http_client

    from agent.mcp.connection import ServerLink
    from agent.mcp.login_auth import LoginAuth

    server = logins.server
    auth = None if server.has_key else LoginAuth(config, logins)
    timeout = httpx2.Timeout(server.timeout, read=None)  # calls have their own limit
    headers = {name: filled(config, value) for name, value in server.headers.items()}

    @asynccontextmanager
    async def streams() -> AsyncIterator[tuple[Any, Any]]:
        async with (
            httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth) as client,
            streamable_http_client(server.url, http_client=client, max_sse_event_size=MOST_BYTES) as opened,
        ):
            yield opened

    def refused() -> str:
        return "" if auth is None else auth.refused

    async def ended() -> None:
        if auth is not None and server.transport == "sse":
            await auth.refusing.wait()  # the SDK does not report it to the call
        else:
            await asyncio.Event().wait()  # it has no process

    async def close() -> None:
        return None

    found = sse_client(server.url, headers, auth=auth) if server.transport == "sse" else streams()
    return ServerLink(found, ended, refused, close, refused)


def filled(config: Config, text: str) -> str:
    """Return the text with ``${NAME}`` replaced by the secret of that name. Raises ExecutionFailed for one that is not set."""
    return _SECRET.sub(lambda found: _secret(config, found[1]), text)


def _secret(config: Config, name: str) -> str:
    value = secret(name, folder=config.folder)
    if value is None:
        raise ExecutionFailed(f"the secret {name} is not set: put it into the environment, or into secrets.env")
    return value


def variables_of(config: Config, server: McpServer) -> Mapping[str, str]:
    """Return the variables of a server's program. Raises ExecutionFailed for a secret that is not set."""
    return {**server.env, **{name: _secret(config, name) for name in server.secrets}}


def open_for(workspace: ServerHome, name: str, server: McpServer) -> Environment:
    """Open an environment for a server alone: with its secrets, which no session's command may read. Raises EnvironmentFailed."""
    config, setting = workspace.config, workspace.setting
    sandbox = config.sandbox
    sandbox = replace(sandbox, hosts=(*sandbox.hosts, *server.hosts), write=(*sandbox.write, *server.write), outside="never")
    own = OwnFiles()
    own.know(setting.protected, setting.installed.closed)
    backends = Backends(replace(config, sandbox=sandbox), setting.protected, own, setting.installed.closed)
    location = Location(backends.get(server.backend), str(Path(workspace.project_dir)))
    return backends.open(location, f"mcp-{name}")
