"""Resources and prompts of MCP servers that a user names in the chat: ``@SERVER:URI`` in a message, ``/SERVER:PROMPT``.

Both are calls by hand of the server's tools for them, so the gates decide about them as about any call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.types import Json, ToolCall, ToolResult

if TYPE_CHECKING:
    from agent.conversation.session import Session

_READ, _GET = "resources/read", "prompts/get"


class ServerOffer(NamedTuple):
    """A resource or prompt. ``tool`` is the session's tool for it."""

    tool: str
    server: str
    name: str


def offer_in(named: str, names: Sequence[str], kind: str = _READ) -> ServerOffer | None:
    """Return the offer that ``SERVER:NAME`` names; None if the session has no tool of such a server. ``names``: its tools."""
    server, colon, name = named.partition(":")
    if not (server and colon and name):
        return None
    from agent.mcp.extra_tools import offered_name

    tool = offered_name(server, kind)
    return ServerOffer(tool, server, name) if tool in names else None


async def read_resource(session: Session, offer: ServerOffer) -> ToolResult:
    """Return the result with the resource. Raises ToolcribError."""
    return await called(session, offer.tool, {"uri": offer.name})


async def called(session: Session, tool: str, args: Json) -> ToolResult:
    """Return the successful result of a call by hand. Raises ToolcribError."""
    executed = await session.acall(ToolCall(ToolCall.new_id(), tool, args))
    if not executed.result.is_success:
        failure = executed.result.failure
        raise ToolcribError((failure.text if failure is not None else executed.result.message) or "the call failed")
    return executed.result


def prompt_in(word: str, names: Sequence[str]) -> ServerOffer | None:
    """Return the prompt that the word of a command line names, or None."""
    return offer_in(word.removeprefix("/"), names, _GET)
