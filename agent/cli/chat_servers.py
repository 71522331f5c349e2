"""The chat command ``/mcp``: the MCP servers of the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.cli.escape import tame
from agent.cli.render import table
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from agent.cli.conversation import Conversation

_HEAD = ("NAME", "STATE", "TOOLS", "RUNNING", "WHERE")


async def obey_mcp(chat: Conversation, rest: str) -> None:
    """List the MCP servers, or reload their configuration and lock. Raises ToolcribError."""
    if rest == "reload":
        _reload(chat)
    elif rest:
        raise ToolcribError("use /mcp, or /mcp reload; to add, lock and remove servers: toolcrib mcp")
    servers = chat.opening.crib.mcp
    rows = servers.rows() if servers is not None else []
    if servers is None or not rows:
        chat.screen.print_note("no MCP servers; add one outside the chat: toolcrib mcp add")
        return
    cells = [(one.name, one.state, str(one.tools), "yes" if one.running else "no", one.where) for one in rows]
    table([_HEAD, *cells], spare=(4,), width=chat.screen.width)
    for problem in servers.problems:
        chat.screen.print_note(tame(f"{problem.subject}: {problem.reason}{f'; {problem.fix}' if problem.fix else ''}"))


def _reload(chat: Conversation) -> None:
    from agent.cli.session_commands import refuse_below_session
    from agent.config import load_config
    from agent.policy.confirmation import require_confirmed

    refuse_below_session(chat, "reloading MCP servers")
    crib = chat.opening.crib
    config = load_config(crib.config.path, profile=crib.config.profile, project_dir=crib.project_dir)
    crib.reload_mcp(require_confirmed(config))
    chat.screen.print_note("MCP servers are reloaded; sessions that you open from now on, such as with /new, have their tools")
