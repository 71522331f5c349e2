"""Put a ticket's question to the person at the terminal, exactly as it is, and read an answer that can't be mistaken."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from agent.cli.escape import exact, one_line
from agent.cli.signals import Ended
from toolcrib import Answer, SuspendTicket, ToolCallContext
from tools.dispatch.scope import Asker

BY = "terminal"
_KEYS: Mapping[str, str] = {
    "once": "o",
    "path": "p",
    "session": "s",
    "task": "t",
    "uses": "u",
    "until": "m",
    "always": "a",
}
"""Scope -> the key that chooses it."""
_WORDS: Mapping[str, str] = {"until": "minutes"}
_NUMBERS: Mapping[str, str] = {"uses": "uses", "until": "minutes"}
"""Scopes that take a number, and what it is called in the answer."""


class LineReader(Protocol):
    @property
    def size(self) -> tuple[int, int]:
        """The screen's columns and rows."""
        ...

    def show(self, text: str) -> None: ...

    async def read_line(self, prompt: str) -> str:
        """Raises EOFError and KeyboardInterrupt."""
        ...


def asker_for(terminal: LineReader | None) -> Asker:
    """Make an asker for that terminal; without one it denies, and says what to do about it."""
    return refuse if terminal is None else TerminalAsker(terminal)


def refuse(ticket: SuspendTicket, ctx: ToolCallContext) -> Answer:
    """Deny: piped input never answers an approval prompt."""
    reason = (
        f"{ticket.message}\nThis needs a person's answer, and nobody can be asked: standard input is not a terminal. "
        "Run it in a terminal to be asked."
    )
    return answer_of(ticket, {"approved": False, "reason": reason}, by="nobody")


class Refuser:
    """An asker for runs that ask nobody; ``refused`` counts what it said no to."""

    def __init__(self) -> None:
        self.refused = 0

    def __call__(self, ticket: SuspendTicket, ctx: ToolCallContext) -> Answer:
        self.refused += 1
        reason = f"{ticket.message}\nThis needs a person's answer, and `toolcrib run` asks nobody; `toolcrib chat` does."
        return answer_of(ticket, {"approved": False, "reason": reason}, by="nobody")


class TerminalAsker:
    """An asker (see CallScope): one question at a time. End of input and Ctrl-C mean no."""

    def __init__(self, terminal: LineReader) -> None:
        self._terminal = terminal

    async def __call__(self, ticket: SuspendTicket, ctx: ToolCallContext | None = None) -> Answer:
        try:
            return answer_of(ticket, await self.put(ticket))
        except EOFError:
            return answer_of(ticket, {"approved": False, "reason": "the person closed the input instead of answering"})
        except Ended:
            raise
        except KeyboardInterrupt:
            return answer_of(ticket, {"approved": False, "reason": "the person pressed Ctrl-C instead of answering"})

    async def put(self, ticket: SuspendTicket) -> Any:
        """Return the payload of the person's answer. Raises EOFError and KeyboardInterrupt where they give none."""
        return await (self._approve(ticket) if ticket.resume_mode == "replay" else self._question(ticket))

    async def _approve(self, ticket: SuspendTicket) -> Any:
        from tools.approval.prompt import PromptPages, prompt_of

        scopes, covers = offered(ticket), ticket.parameters.get("covers") or {}
        pages = PromptPages(prompt_of(ticket), *self._terminal.size)
        legend = [*(["  v    shows the next page of it; v all, the rest"] if pages.is_long else []), *_legend(scopes, covers)]
        self._terminal.show("\n".join(pages.first()))
        self._say(legend)
        keys = "  ".join([*(["[v]iew"] if pages.is_long else []), *map(_shown_key, (*scopes, "deny"))])
        while True:
            said = (await self._terminal.read_line(f"  {keys}  ? > ")).strip()
            word, _, rest = said.partition(" ")
            if pages.is_long and word.lower() in ("v", "view") and rest.strip() in ("", "all"):
                self._terminal.show("\n".join(pages.next(whole=bool(rest))))
            elif (answer := chosen(word.lower(), rest.strip(), scopes)) is not None:
                if not pages.unseen:
                    return answer
                self._say([f"  not run: {pages.missing}; then answer again"])
            elif word.lower() in ("d", "deny", "n", "no"):
                reason = rest.strip() or (await self._terminal.read_line("  why (Enter for no reason) > ")).strip()
                return {"approved": False, "reason": reason} if reason else {"approved": False}
            else:
                self._say([*([f"  {exact(one_line(said, 40))!r} is none of these:"] if said else []), *legend])

    def _say(self, lines: Iterable[str]) -> None:
        """Show lines, broken at the terminal's width by us."""
        from tools.approval.prompt import PromptLine, physical

        self._terminal.show("\n".join(physical(map(PromptLine, lines), self._terminal.size[0])))

    async def _question(self, ticket: SuspendTicket) -> Any:
        from tools.approval.prompt import quoted

        choices = [str(choice) for choice in ticket.parameters.get("choices") or ()]
        schema = ticket.response_schema or {"type": "string"}
        first, *more = quoted(ticket.message)
        lines = [
            f"❓ {first.text}",
            *map(str, more),
            *(f"  {number}. {exact(choice)}" for number, choice in enumerate(choices, 1)),
        ]
        self._say(lines)
        hint = f"1-{len(choices)}, or your own words" if choices else "your answer"
        while True:
            said = (await self._terminal.read_line(f"  {hint} > ")).strip()
            if said.isdecimal() and 1 <= int(said) <= len(choices):
                return choices[int(said) - 1]
            if said and schema.get("type", "string") == "string":
                return said
            if said and (value := _json(said)) is not None:
                return value[0]
            self._terminal.show("  Ctrl-D declines." if not said else f"  Expected JSON of type {schema.get('type')}.")


def offered(ticket: SuspendTicket) -> list[str]:
    """Return the scopes that a yes to this ticket may have."""
    return [scope for scope in ticket.parameters.get("scopes", ["once"]) if scope in _KEYS] or ["once"]


def covered(ticket: SuspendTicket, scope: str) -> str:
    """Return what a yes of this scope covers, in words."""
    return exact(str((ticket.parameters.get("covers") or {}).get(scope, "this call only")))


def _shown_key(scope: str) -> str:
    word = _WORDS.get(scope, scope)
    return f"[{word[0]}]{word[1:]}"


def chosen(word: str, rest: str, scopes: Sequence[str]) -> dict[str, Any] | None:
    """The answer that a line gives; None where it gives none of these."""
    scope = next((one for one in scopes if word in (one, _KEYS[one], _WORDS.get(one))), None)
    if scope is None or (rest and scope not in _NUMBERS):
        return None
    answer: dict[str, Any] = {"approved": True, "scope": scope}
    if rest:
        if not rest.isdecimal() or not 1 <= int(rest) <= 1_000:
            return None
        answer[_NUMBERS[scope]] = int(rest)
    return answer


def _legend(scopes: Sequence[str], covers: Mapping[str, str]) -> list[str]:
    lines = []
    for scope in scopes:
        number = " N" if scope in _NUMBERS else ""
        lines.append(f"  {_KEYS[scope]}{number:<2}  {exact(covers.get(scope, 'this call only'))}")
    return [*lines, "  d    do not run it; what you write after it is the reason"]


def _json(text: str) -> tuple[Any] | None:
    try:
        return (json.loads(text),)
    except ValueError:
        return None


def answer_of(ticket: SuspendTicket, payload: Any, by: str = BY) -> Answer:
    return Answer(ticket.id, payload=payload, by=by, at=time.time())
