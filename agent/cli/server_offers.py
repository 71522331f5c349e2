"""Resources and prompts of MCP servers that a user names in the chat: ``@SERVER:URI`` in a message, ``/SERVER:PROMPT``.

Both are calls by hand of the server's tools for them, so the gates decide about them as about any call.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.cli.escape import tame
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.types import Json, ToolCall, ToolResult

if TYPE_CHECKING:
    from agent.cli.conversation import Conversation
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
    return await _called(session, offer.tool, {"uri": offer.name})


async def _called(session: Session, tool: str, args: Json) -> ToolResult:
    executed = await session.acall(ToolCall(ToolCall.new_id(), tool, args))
    if not executed.result.is_success:
        failure = executed.result.failure
        raise ToolcribError((failure.text if failure is not None else executed.result.message) or "the call failed")
    return executed.result


def prompt_in(word: str, names: Sequence[str]) -> ServerOffer | None:
    """Return the prompt that the word of a command line names, or None."""
    return offer_in(word.removeprefix("/"), names, _GET)


async def send_prompt(chat: Conversation, offer: ServerOffer, rest: str) -> None:
    """Get a prompt, show it, and send it as the user's message after their yes. Raises ToolcribError."""
    if not chat.model:
        raise ToolcribError("no model is connected that could read the prompt; to connect one: /model")
    if chat.opening.confirm is None:
        raise ToolcribError("no user can be asked whether the model may read the server's text")
    try:
        pairs = [word.partition("=") for word in shlex.split(rest)]
    except ValueError as error:
        raise ToolcribError(f"the arguments can't be read: {error}") from None
    if not all(name and equals for name, equals, _ in pairs):
        raise ToolcribError(f"write the arguments as NAME=VALUE: /{offer.server}:{offer.name} NAME='a value'")
    arguments: dict[str, Json] = {name: value for name, _, value in pairs}
    result = await _called(chat.session, offer.tool, {"name": offer.name, "arguments": arguments})
    text = str(result.data).removeprefix("user:\n")
    chat.screen.text(tame(text))
    if not await chat.opening.confirm(f"Send this text of the MCP server {offer.server} to the model, as your message?"):
        chat.screen.print_note("not sent")
        return
    chat.images += result.images
    await chat.send(text)
