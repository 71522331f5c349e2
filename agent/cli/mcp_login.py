"""``toolcrib mcp login`` and ``logout``."""

from __future__ import annotations

import argparse
import asyncio
import sys
import webbrowser
from typing import TYPE_CHECKING

from agent.cli.app import FAILED, OK
from agent.mcp.logins import Login, LoginFailed, Logins
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from mcp.shared.auth import AuthorizationCodeResult

    from agent.config import Config
    from agent.mcp.callback import Callback

_SECONDS = 300.0
"""Seconds that the user has to log in in the browser."""


def log_in(args: argparse.Namespace, config: Config) -> int:
    """Log in at a server, and store the login. Return the exit code."""
    from agent.cli.escape import tame
    from agent.mcp.lock import lock_path, read_lock

    logins = _logins(args, config)
    try:
        login = asyncio.run(_login(args, config, logins))
    except LoginFailed as error:
        print(tame(f"{args.name}: not logged in: {error}"), file=sys.stderr)
        return FAILED
    logins.store(login)
    is_locked = args.name in read_lock(lock_path(config.path)).servers
    print(f"{args.name}: logged in" + ("" if is_locked else f"; look at its tools and lock them: toolcrib mcp lock {args.name}"))
    return OK


def log_out(args: argparse.Namespace, config: Config) -> int:
    """Remove the stored login. Return the exit code."""
    logins = _logins(args, config)
    if logins.find() is None:
        print(f"{args.name}: not logged in")
        return OK
    logins.forget(logins.principal)
    print(f"{args.name}: logged out here; to end the login there, too, revoke it in your account at {logins.server.url}")
    return OK


def _logins(args: argparse.Namespace, config: Config) -> Logins:
    server = config.mcp.servers[args.name]
    platform, _, user = args.principal.partition(":")
    if args.principal and not (platform and user):
        raise ToolcribError("write --for PLATFORM:USER, such as telegram:12345")
    if not server.url:
        raise ToolcribError(f"the MCP server {args.name} is a program: it takes no login; see its own documentation")
    if server.has_key:
        raise ToolcribError(f"mcp.servers.{args.name}.headers has Authorization; remove it, then log in")
    return Logins(config.folder, args.name, server, args.principal)


async def _login(args: argparse.Namespace, config: Config, logins: Logins) -> Login:
    from agent.mcp.callback import Callback, port_of
    from agent.mcp.oauth import log_in_by_browser, log_in_by_credentials, log_in_by_device

    if logins.server.client_id:
        return await log_in_by_credentials(config, logins)
    if args.device:
        return await log_in_by_device(logins, _show_device)
    async with Callback(port_of((logins.client() or {}).get("redirect_uris"))) as callback:
        browser = _Browser(config, callback, paste=args.paste)
        return await log_in_by_browser(logins, callback.address, browser.show, browser.answer)


def _show_device(address: str, code: str) -> None:
    from agent.cli.escape import tame

    print(tame(f"Open {address} on any device, and enter the code {code}"), file=sys.stderr, flush=True)


class _Browser:
    """The user's browser, on this machine or another."""

    def __init__(self, config: Config, callback: Callback, *, paste: bool) -> None:
        self._config = config
        self._callback = callback
        self._paste = paste
        self._url = ""

    async def show(self, url: str) -> None:
        """Open the address, or find that the user must open it."""
        self._url = url
        self._callback.expect(url)
        if not self._paste:
            print("Log in in the browser. If no page opens: Ctrl-C, then add --paste", file=sys.stderr, flush=True)
            self._paste = not await asyncio.to_thread(webbrowser.open, url)

    async def answer(self) -> AuthorizationCodeResult:
        """Return the answer that the browser gets. Raises LoginFailed."""
        from agent.cli.escape import tame
        from agent.cli.terminal import controlling_terminal
        from agent.policy.self_protection import folders_of

        if not self._paste:
            return await self._callback.wait(_SECONDS)
        with controlling_terminal(folders_of(self._config)) as terminal:
            terminal.show(tame(f"Open this address in any browser, and log in:\n\n{self._url}\n"))
            terminal.show(f"Then the browser goes to {self._callback.address}?..., even if it can't show that page.")
            typed = asyncio.ensure_future(terminal.read_line("Paste its address here: "))
            came = asyncio.ensure_future(self._callback.wait(None))
            await asyncio.wait([typed, came], return_when=asyncio.FIRST_COMPLETED)
            if came.done():
                typed.cancel()
                await asyncio.wait([typed])
                return came.result()
            came.cancel()
            try:
                return self._callback.parsed(typed.result())
            except (EOFError, KeyboardInterrupt):
                raise LoginFailed("no address was pasted") from None
