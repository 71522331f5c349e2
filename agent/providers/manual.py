"""The provider without a model: a user types the calls. A fresh installation uses it, because no model is configured."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence

from agent.protocols.command import parse_command
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.image import Image
from toolcrib.contract.session import ExecutedCall, OnEvent, ProviderTurn, StreamEvent
from toolcrib.contract.types import ToolCall

HELP = """No model is connected, so I can only run tools that you call:

  @terminal {"command": "ls"}
  @tool read_file {"path": "README.md"}

/tools lists them. /model switches to a configured model. To connect another one, leave the chat and name its server:

  toolcrib chat --base-url http://127.0.0.1:11434/v1 --model NAME     one on this machine
  OPENAI_API_KEY=... toolcrib chat --model NAME                       the vendor's
  toolcrib config set model '{base_url: "http://...", name: NAME}'    from now on
"""


class ManualSession:
    """A session without a model. A line with a call becomes a turn with that call; the answer to any other line is ``HELP``."""

    def __init__(self, tool_names: Collection[str]) -> None:
        self._names = tool_names
        self._lines: deque[str] = deque()

    def say(self, text: str, images: Sequence[Image] = ()) -> None:
        """Add the user's line. Raises ToolcribError for images, as no model can see them."""
        if images:
            raise ToolcribError("no model is connected that could see an image; name one with --model NAME")
        self._lines.append(text)

    async def stream_turn(self, on_event: OnEvent) -> ProviderTurn:
        if not self._lines:
            return ProviderTurn("")
        line = self._lines.popleft()
        call = parse_command(line, self._names) or self._of_unknown(line)
        if call is not None:
            return ProviderTurn("", (call,), line)
        on_event(StreamEvent("assistant_delta", HELP))
        return ProviderTurn(HELP, assistant_turn=line)

    def _of_unknown(self, line: str) -> ToolCall | None:
        """Return a call for a line such as ``@nope {}``, whose result states the error; None for other lines.

        Such a line is never prose, because no model would read it.
        """
        line = line.strip()
        return parse_command(f"@tool {line[1:]}", self._names) if line[:1] == "@" and line[1:2].strip() else None

    async def append_tool_results(self, turn: ProviderTurn, executed: Sequence[ExecutedCall]) -> None:
        """Do nothing: the user has seen the results."""

    async def close(self) -> None:
        self._lines.clear()
