"""A chat: lines in, events out. Knows nothing of how lines are typed."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from agent.cli.render import Screen, first_sentence, table
from agent.events import Event, TextDelta, ToolFinished, ToolStarted
from agent.loop import run_loop
from toolcrib import ToolcribError

if TYPE_CHECKING:
    from agent.providers.manual import ManualSession
    from agent.run import Session

SLASH = {"/help": "this", "/tools": "the tools of this session", "/quit": "leave (Ctrl-D does too)"}
_HELP = """\
Call a tool by typing it:
  @terminal {"command": "ls"}
  @tool read_file {"path": "README.md"}
Ctrl-C interrupts what runs and keeps the session. Tab completes.
"""


class Conversation:
    """One session, a provider, and the screen that shows what happens."""

    def __init__(self, session: Session, provider: ManualSession, screen: Screen) -> None:
        self._session = session
        self._provider = provider
        self._screen = screen

    async def say(self, line: str) -> bool:
        """Do what the line asks. False: the person wants to leave."""
        line = line.strip()
        if line.startswith("/"):
            return self._slash(line)
        if line:
            await self._run(line)
        return True

    async def _run(self, line: str) -> None:
        self._provider.say(line)
        try:
            # A typed call takes two turns: the call, and the silence after it.
            await run_loop(self._provider, self._session, self._show, max_turns=max(2, self._session.crib.config.max_turns))
        except ToolcribError as error:
            self._screen.note(f"toolcrib: {error}")

    def _show(self, event: Event) -> None:
        match event:
            case TextDelta(text=text):
                self._screen.text(text, end="")
            case ToolStarted(call=call, emoji=emoji) if call.fault is None:
                self._screen.started(call, emoji)
            case ToolFinished(executed=executed, emoji=emoji):
                self._screen.call(executed, emoji)

    def _slash(self, line: str) -> bool:
        match line.split()[0]:
            case "/quit" | "/exit":
                return False
            case "/help":
                self._screen.text(_HELP + "\n".join(f"{name:<8} {text}" for name, text in SLASH.items()))
            case "/tools":
                entries = [entry for entry in self._session.crib.registry.entries() if entry.name in self._session.names]
                table([(entry.emoji, f"@{entry.name}", first_sentence(entry.description)) for entry in entries])
            case word:
                near = get_close_matches(word, SLASH, n=1, cutoff=0.4)
                self._screen.note(f"there is no {word}; {f'did you mean {near[0]}?' if near else '/help lists what there is'}")
        return True
