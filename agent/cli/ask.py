"""Put a ticket's question to the person at the terminal, exactly as it is, and read an answer that can't be mistaken."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
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
_MOST_ARGUMENT_CHARS = 4_000


class LineReader(Protocol):
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
        scopes, covers = offered(ticket), ticket.parameters.get("covers") or {}
        self._terminal.show("\n".join([*describe(ticket), *_legend(scopes, covers)]))
        keys = "  ".join(_shown_key(scope) for scope in (*scopes, "deny"))
        while True:
            said = (await self._terminal.read_line(f"  {keys}  ? > ")).strip()
            word, _, rest = said.partition(" ")
            if (answer := chosen(word.lower(), rest.strip(), scopes)) is not None:
                return answer
            if word.lower() in ("d", "deny", "n", "no"):
                reason = rest.strip() or (await self._terminal.read_line("  why (Enter for no reason) > ")).strip()
                return {"approved": False, "reason": reason} if reason else {"approved": False}
            unclear = [f"  {one_line(said, 40)!r} is none of these:"] if said else []
            self._terminal.show("\n".join([*unclear, *_legend(scopes, covers)]))

    async def _question(self, ticket: SuspendTicket) -> Any:
        choices = [str(choice) for choice in ticket.parameters.get("choices") or ()]
        schema = ticket.response_schema or {"type": "string"}
        lines = [f"❓ {line}" if not index else f"   {line}" for index, line in enumerate(exact(ticket.message).split("\n"))]
        lines += [f"  {number}. {exact(choice)}" for number, choice in enumerate(choices, 1)]
        self._terminal.show("\n".join(lines))
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
    return exact((ticket.parameters.get("covers") or {}).get(scope, "this call only"))


def describe(ticket: SuspendTicket) -> list[str]:
    """Word an approval prompt: the call, where it would run, and each finding."""
    parameters = ticket.parameters
    name, args = (ticket.call.name, ticket.call.args) if ticket.call else (str(parameters.get("tool", "a tool")), {})
    if "command" in parameters:
        lines = [f"{name} wants to run:", *_quoted(str(parameters["command"])), f"  in {exact(str(parameters.get('cwd', '?')))}"]
    else:
        paths = [parameters["path"]] if "path" in parameters else list(parameters.get("paths", ()))
        lines = [f"{name} wants to {'change' if paths else 'run with'}:"]
        lines += [line for path in paths for line in _quoted(str(path))]
        lines += ["  with:"] if paths else []
        lines += _quoted(_clipped(json.dumps(args, ensure_ascii=False, indent=2)))
    found: Sequence[Mapping[str, Any]] = parameters.get("findings", ())
    written = str(parameters.get("command", ""))
    reasons = [line for one in found for line in _reason(one, written)]
    lines += list(dict.fromkeys(reasons)) or [f"  ! {line}" for line in exact(ticket.message).split("\n")]
    if any(one.get("level") == "ask-once" for one in found):
        lines.append("  This is asked every time.")
    return lines


def _quoted(text: str) -> list[str]:
    """Quote text behind a bar, so that no line of it can pass for one of ours."""
    shown = [f"  │ {line}" for line in exact(text).split("\n")]
    if any(char != "\n" and not char.isprintable() for char in text):
        shown.append("  ! invisible characters in it are written out, as ^X, \\xNN or \\uNNNN")
    return shown


def _clipped(text: str) -> str:
    if len(text) <= _MOST_ARGUMENT_CHARS:
        return text
    half = _MOST_ARGUMENT_CHARS // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half:,} characters not shown ...]\n{text[-half:]}"


def _reason(finding: Mapping[str, Any], written: str) -> list[str]:
    """Word the reason, and the resolved command where it differs from the written one."""
    lines = [f"  ! {exact(str(finding.get('why', '')))} ({exact(str(finding.get('key', '')))})"]
    resolved = str(finding.get("text", ""))
    if written and resolved and resolved not in written:
        lines.append(f"      as: {exact(resolved)}")
    return lines


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
