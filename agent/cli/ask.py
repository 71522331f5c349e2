"""Put a ticket's question to the user at the terminal, exactly as it is, and read an unambiguous answer.

An interface implements one of these protocols: a ``LineReader`` shows lines and reads a line, a ``KeyReader`` also reads single
keys. This module breaks and marks the lines (tools.approval.prompt); the interface shows them unchanged and adds nothing
between them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from agent.cli.choosing import (
    NUMBERS,
    Choice,
    choices,
    chosen,
    covers_of,
    denied,
    in_list,
    key_row,
    legend,
    letters_of,
    line_row,
    list_rows,
    moved,
    number_of,
    offered,
    said_in_words,
)
from agent.cli.escape import exact, one_line
from agent.cli.refusing import answer_of, refuse, refuse_inside
from agent.cli.signals import Ended
from agent.policy.self_protection import is_below_any
from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.types import Answer, SuspendTicket
from tools.dispatch.scope import Asker

if TYPE_CHECKING:
    from agent.cli.screen.cells import Row
    from tools.approval.prompt import PromptRow


@runtime_checkable
class LineReader(Protocol):
    """An interface that shows lines to a user and reads lines that the user types."""

    @property
    def size(self) -> tuple[int, int]:
        """Return the screen's columns and rows."""
        ...

    def show(self, text: str) -> None:
        """Show lines unchanged."""
        ...

    async def read_line(self, prompt: str) -> str:
        """Return a line that was typed after the prompt appeared. Raises EOFError and KeyboardInterrupt."""
        ...


@runtime_checkable
class KeyReader(LineReader, Protocol):
    """An interface that also reads single keys, if ``reads_keys`` is true."""

    @property
    def reads_keys(self) -> bool:
        """Return whether keys can be read now; a dumb terminal gives lines only."""
        ...

    async def read_line(self, prompt: str, *, stays: bool = True) -> str:
        """Return a line, like any LineReader. Without ``stays`` the line is shown elsewhere and may vanish from the screen."""
        ...

    async def read_key(self, row: Callable[[int], str], letters: str = "", at_once: str = "") -> str:
        """Show ``row`` in place of the row shown before, and return the next key. ``row`` is called with the screen's columns,
        and again when they change.

        ``letters`` are the letters of the choices. An interface may map the characters of another keyboard layout to them. A
        letter counts only if no other key follows it. Letters in ``at_once`` neither approve nor deny, so they count sooner:
        see OneKey.

        A character is returned as itself; other keys are ``enter``, ``left``, ``right``, ``up`` and ``down``; ``pasted`` means
        that several keys arrived at once; these never count. Callers ignore other names. Keys count only after the first pause in
        the typing since the prompt appeared: keys typed before were not meant for the prompt. Raises EOFError and
        KeyboardInterrupt.
        """
        ...


@runtime_checkable
class ChoiceReader(KeyReader, Protocol):
    """An interface that also shows rows of a prompt in colours, and a list of choices if ``lists_choices`` is true."""

    @property
    def lists_choices(self) -> bool:
        """Return whether the screen has room for a list of choices."""
        ...

    def show_rows(self, rows: Sequence[PromptRow]) -> None:
        """Show rows of a prompt, each in its style."""
        ...

    async def read_choice(
        self, rows: Callable[[int], Sequence[Row]], title: Callable[[], str], letters: str, at_once: str
    ) -> str:
        """Show the rows below a title, and return a key as ``read_key`` does."""
        ...


def asker_for(terminal: LineReader | None, interrupt: Callable[[], None] | None = None) -> Asker:
    """Return an asker for the terminal, see TerminalAsker. Without a terminal the asker denies, with advice in the reason."""
    return refuse if terminal is None else TerminalAsker(terminal, interrupt)


class TerminalAsker:
    """An asker (see CallScope) that asks one question at a time; further questions wait for their turn. End of input and Ctrl-C
    deny. In a process that a session's command started, every answer is a denial, because the command may be typing.
    """

    def __init__(
        self,
        terminal: LineReader,
        interrupt: Callable[[], None] | None = None,
        turn: Callable[[], AbstractAsyncContextManager[None]] | None = None,
        place: Callable[[SuspendTicket], str] | None = None,
    ) -> None:
        """``interrupt`` is called on Ctrl-C, so that the run that asked ends too. Each question is asked inside ``turn()``.
        ``place`` returns which call of a reply a ticket is about, such as "call 2 of 3", "" for a single call.
        """
        self._place_of = place
        self._own_turn = turn or contextlib.nullcontext
        self._terminal = terminal
        self._interrupt = interrupt
        self._turn = asyncio.Lock()
        self._open = self._begun = self._all = 0

    async def __call__(self, ticket: SuspendTicket, ctx: ToolCallContext | None = None) -> Answer:
        if is_below_any():
            return refuse_inside(ticket)
        if not self._open:
            self._turn, self._begun, self._all = asyncio.Lock(), 0, 0
        self._open, self._all = self._open + 1, self._all + 1
        try:
            await _let_others_come()
            async with self._turn, self._own_turn():
                self._begun += 1
                return answer_of(ticket, await self.put(ticket, partial(self._place, ticket, self._begun)))
        except EOFError:
            return answer_of(ticket, {"approved": False, "reason": "the user closed the input instead of answering"})
        except Ended:
            raise
        except KeyboardInterrupt:
            if self._interrupt is not None:
                self._interrupt()
            return answer_of(ticket, {"approved": False, "reason": "the user pressed Ctrl-C instead of answering"})
        finally:
            self._open -= 1

    def _place(self, ticket: SuspendTicket, number: int) -> str:
        """Return which of the open questions this is, such as "2 of 3"; for a single question, which call it is about."""
        if self._all > 1:
            return f"{number} of {self._all}"
        return "" if self._place_of is None else self._place_of(ticket)

    async def put(self, ticket: SuspendTicket, count: Callable[[], str] = str) -> Any:
        """Return the payload of the user's answer. ``count`` returns which of the open questions this is, such as "2 of 3".

        Raises EOFError and KeyboardInterrupt if the user gives no answer.
        """
        if ticket.resume_mode != "replay":
            return await self._question(ticket)
        return await _Approval(self._terminal, ticket, count).answered()

    def _say(self, lines: Iterable[str]) -> None:
        _say(self._terminal, lines)

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


class _Approval:
    """An approval prompt, from its first line to the payload of its answer."""

    def __init__(self, terminal: LineReader, ticket: SuspendTicket, count: Callable[[], str]) -> None:
        from tools.approval.prompt import PromptPages, prompt_of

        self._terminal = terminal
        self._covers = covers_of(ticket)
        self._scopes = offered(ticket)
        self._count = count
        self._keys = terminal if isinstance(terminal, KeyReader) and terminal.reads_keys else None
        self._styled = terminal if isinstance(terminal, ChoiceReader) and terminal.reads_keys else None
        self._lists = self._styled if self._styled is not None and self._styled.lists_choices else None
        columns, rows = terminal.size
        if self._lists is not None:
            rows -= len(list_rows(choices(self._scopes, is_long=True), self._covers, None, columns))
        everything = "v all" if self._keys is None else "V"
        self._pages = PromptPages(prompt_of(ticket), columns, rows, everything=everything, numbered=self._styled is not None)
        self._offers = choices(self._scopes, is_long=self._pages.is_long)
        self._offers = self._offers if self._lists is None else in_list(self._offers)

    async def answered(self) -> Any:
        from tools.approval.prompt import PromptLine, physical

        rows = self._pages.first()
        if self._keys is None:
            more = [PromptLine(f"  {self._count()} waiting for you")] if self._count() else []
            more.append(PromptLine("  d denies at once; put a reason on the same line: d because ..."))
            rows += physical(more, self._terminal.size[0])
        self._show(rows)
        while True:
            said = await (self._by_line() if self._keys is None else self._by_key(self._keys))
            if said is None:
                continue
            if said["approved"] and self._pages.unseen:
                self._say([f"  not run: an approval also covers {self._pages.missing}; then answer again"])
                continue
            if self._keys is not None:
                self._say([f"  {said_in_words(said, self._covers)}"])
            return said

    async def _by_line(self) -> dict[str, Any] | None:
        said = (await self._terminal.read_line(line_row(self._offers))).strip()
        word, _, rest = said.partition(" ")
        word, rest = word.lower(), rest.strip()
        if self._pages.is_long and word in ("v", "view") and rest in ("", "all"):
            self._view(whole=bool(rest))
        elif word == "?":
            self._explain()
        elif (answer := chosen(word, rest, self._scopes) or denied(word, rest)) is not None:
            return answer
        elif said:
            self._say([f"  {exact(one_line(said, 40))!r} is not an answer; ? lists the answers"])
        return None

    async def _by_key(self, keys: KeyReader) -> dict[str, Any] | None:
        """Read keys until one answers. Enter confirms only a choice that the arrows have highlighted. At first no choice is
        highlighted.
        """
        at: int | None = None
        told = False
        while True:
            key = await self._key(keys, at)
            if key in ("left", "up"):
                at = moved(at, "left", len(self._offers))
            elif key in ("right", "down"):
                at = moved(at, "right", len(self._offers))
            elif key == "pasted":
                at = None  # the keys were not meant for the highlighted choice
                self._say(["  ignored: several keys arrived at once; press one"])
            elif key == "enter" and at is not None:
                return await self._take(keys, self._offers[at])
            elif key == "enter" and not told:
                told = True
                self._say(["  nothing is selected: use the arrows, then Enter; or press a letter"])
            elif key == "V" and self._pages.is_long:
                self._view(whole=True)
                return None
            elif (one := next((one for one in self._offers if key.lower() == one.letter), None)) is not None:
                return await self._take(keys, one)

    async def _key(self, keys: KeyReader, at: int | None) -> str:
        """Show the choices, with a mark at the highlighted one, and return a key."""
        letters, at_once = letters_of(self._offers), letters_of(self._offers, decide=False)
        if self._lists is None:
            return await keys.read_key(partial(_counted, self._offers, at, self._count), letters, at_once)
        return await self._lists.read_choice(partial(list_rows, self._offers, self._covers, at), self._title, letters, at_once)

    def _title(self) -> str:
        return "  ".join(part for part in ("Allow this?", self._count()) if part)

    async def _take(self, keys: KeyReader, one: Choice) -> dict[str, Any] | None:
        if one.scope in NUMBERS:
            if self._pages.unseen:
                return {"approved": True}
            what = NUMBERS[one.scope]
            number = number_of((await self._terminal.read_line(f"  how many {what} (1 to 1000; Enter goes back) > ")).strip())
            return None if number is None else {"approved": True, "scope": one.scope, what: number}
        if one.scope:
            return {"approved": True, "scope": one.scope}
        match one.word:
            case "view":
                self._view()
            case "deny":
                return denied("d", (await keys.read_line("  why not (Enter: no reason) > ", stays=False)).strip())
            case _:
                self._explain()
        return None

    def _view(self, *, whole: bool = False) -> None:
        self._show(self._pages.next(whole=whole))

    def _show(self, rows: Sequence[PromptRow]) -> None:
        if self._styled is None:
            self._terminal.show("\n".join(rows))
        else:
            self._styled.show_rows(rows)

    def _explain(self) -> None:
        self._say(legend(self._offers, self._covers, by_key=self._keys is not None))

    def _say(self, lines: Iterable[str]) -> None:
        _say(self._terminal, lines)


def _counted(offers: Sequence[Choice], at: int | None, count: Callable[[], str], columns: int) -> str:
    return key_row(offers, at, columns, count=count())


def _say(terminal: LineReader, lines: Iterable[str]) -> None:
    """Show lines, broken here to the terminal's width."""
    from tools.approval.prompt import PromptLine, physical

    terminal.show("\n".join(physical(map(PromptLine, lines), terminal.size[0])))


async def _let_others_come() -> None:
    """Yield to other tasks once, so that simultaneous questions are counted. Without a running loop, do nothing."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    await asyncio.sleep(0)


def _json(text: str) -> tuple[Any] | None:
    try:
        return (json.loads(text),)
    except ValueError:
        return None
