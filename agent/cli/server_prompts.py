"""Send a prompt of an MCP server as the user's message: ``/SERVER:PROMPT``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from agent.cli.escape import tame
from agent.cli.server_offers import ServerOffer, called
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.types import Json

if TYPE_CHECKING:
    from agent.cli.conversation import Conversation


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
    result = await called(chat.session, offer.tool, {"name": offer.name, "arguments": arguments})
    text = str(result.data).removeprefix("user:\n")
    chat.screen.text(tame(text))
    if not await chat.opening.confirm(f"Send this text of the MCP server {offer.server} to the model, as your message?"):
        chat.screen.print_note("not sent")
        return
    chat.images += result.images
    await chat.send(text)
