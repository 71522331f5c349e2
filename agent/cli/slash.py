"""The chat's own commands: lines that begin with a slash. A new one: a function and its row here, its words in words.py."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from agent.cli.escape import exact, tame
from agent.cli.faults import explained
from agent.cli.render import first_sentence, table
from agent.cli.stories import exchanges, session_rows
from agent.cli.words import words_of
from toolcrib import ToolcribError
from toolcrib._near import near

if TYPE_CHECKING:
    from agent.cli.conversation import Conversation

_BY_HAND = """\
Call a tool by typing it:
  @terminal {"command": "ls"}
  @tool read_file {"path": "README.md"}
"""
_WITH_MODEL = """\
Say what you want done. A line such as @terminal {"command": "ls"} runs a tool yourself; the model does not hear of it.
"""
_KEYS = """\
What you type while it works is queued; Alt-S (or Ctrl-X Ctrl-S) hands it to the model with its next results.
Alt-Enter, Ctrl-J, or a backslash before Enter begin another line; Ctrl-X Ctrl-E opens $EDITOR; Ctrl-R searches the history.
Shift-Tab switches the mode: default, confirm-edits, plan.
A question takes a letter, or the arrows and Enter; what you go on typing stays yours. Ctrl-C says no to it and interrupts.
Ctrl-C interrupts what runs and keeps the session. Tab completes.
"""
_ALONE = ("/tools", "/cost", "/new", "/sessions", "/env")
"""Commands without arguments: words behind them were meant for something, and would be lost."""
_LAST = 3
"""Exchanges that are shown when a session is resumed."""


async def obey(chat: Conversation, line: str) -> bool:
    """Do it. False: the person wants to leave."""
    word, _, rest = line.partition(" ")
    if word in ("/quit", "/exit"):
        return False
    command = COMMANDS.get(word) or _of_plugin(chat, word)
    if command is None:
        alike = near(word, words_of(chat.opening.crib), cutoff=0.4) if len(word) > 1 else []
        chat.screen.note(f"there is no {word}; {f'did you mean {alike[0]}?' if alike else '/help lists what there is'}")
        return True
    try:
        if word in _ALONE and rest.strip():
            raise ToolcribError(f"{word} takes nothing after it, and nothing was done")
        await command(chat, rest.strip())
    except ToolcribError as error:
        chat.screen.fault(f"✗ {explained(error)}")
    return True


def _of_plugin(chat: Conversation, word: str) -> Callable[[Any, str], Awaitable[None]] | None:
    """Return what runs a plugin's command; None where no plugin has one of that name."""
    function = chat.opening.crib.slash.get(word.removeprefix("/"))
    if function is None:
        return None

    async def act(chat: Conversation, rest: str) -> None:
        try:
            said = function(rest, chat.session.identity)
            said = await said if isawaitable(said) else said
        except ToolcribError:
            raise
        except Exception as error:
            raise ToolcribError(f"the plugin's {word} failed: {type(error).__name__}: {error}") from error
        if said is not None:
            chat.screen.text(str(said))

    return act


async def _help(chat: Conversation, rest: str) -> None:
    how = _WITH_MODEL if chat.model else _BY_HAND
    words = (f"{name:<10} {text}" for name, text in words_of(chat.opening.crib).items())
    lines = [*(how + _KEYS).rstrip("\n").split("\n"), *words]
    if chat.screen.interactive:
        from textwrap import fill

        width = max(chat.screen.width, 30)
        lines = [fill(line, width, subsequent_indent=" " * 11 if line.startswith("/") else "") for line in lines]
    chat.screen.text("\n".join(lines))


async def _tools(chat: Conversation, rest: str) -> None:
    entries = [entry for entry in chat.opening.crib.registry.entries() if entry.name in chat.session.names]
    table([(entry.emoji, f"@{entry.name}", first_sentence(entry.description)) for entry in entries])


async def _model(chat: Conversation, rest: str) -> None:
    from agent.cli.switching import also_there, choose, offers

    if rest:
        await chat.switch(await choose(chat, rest.split()))
        chat.screen.note(f"{chat.model} continues this conversation" if chat.model else "no model: you call the tools yourself")
        return
    found = await offers(chat)
    if not chat.model and not found:
        from agent.cli.offer import HOW

        chat.screen.note(f"no model: you call the tools yourself.\n{HOW.format(command='chat')}")
        return
    chat.screen.text(chat.model or "no model: you call the tools yourself")
    for line in also_there(found, chat.model):
        chat.screen.note(tame(line))  # names are the server's words


async def _image(chat: Conversation, rest: str) -> None:
    from agent.cli.images import labels, read_typed

    if rest:
        if not chat.model:
            raise ToolcribError("no model is connected, so nobody can look at it; /model connects one")
        chat.images.append(read_typed(rest))
        chat.screen.note(f"{labels(chat.images)} will go with your next message")
    elif chat.images:
        chat.screen.note(f"{labels(chat.images)} removed from your next message")
        chat.images.clear()
    else:
        raise ToolcribError("say which: /image FILE")


async def _explain(chat: Conversation, rest: str) -> None:
    from agent.cli.explained import told
    from agent.explaining import asked_about

    if not rest:
        raise ToolcribError("say what: /explain COMMAND")
    session = chat.session
    explained = await session.explain(rest)
    person = asked_about(session.config, session.identity.platform, explained.findings)
    chat.screen.text("\n".join(told(explained, person)))


async def _mode(chat: Conversation, rest: str) -> None:
    from tools.approval.modes import MODES

    if rest:
        await chat.set_mode(rest)
    table([("→" if mode == chat.session.mode.now else "", mode, words) for mode, words in MODES.items()])


async def _show(chat: Conversation, rest: str) -> None:
    if chat.reader is None:
        raise ToolcribError("here everything is shown whole as it comes; /show is for the chat at a terminal")
    number = rest.removeprefix("#")
    if number and not number.isdecimal():
        raise ToolcribError("say which: /show N; the number stands behind # at the end of a line")
    await chat.reader.show(int(number) if number else None)


async def _undo(chat: Conversation, rest: str) -> None:
    from agent.cli.undoing import done, planned
    from agent.undo import UndoRequest, What

    words = rest.split()
    force = "force" in words
    what, *names = [word for word in words if word != "force"] or ["turn"]
    kinds: dict[str, What] = {"turn": "turn", "call": "call", "redo": "redo"}
    if what not in kinds or len(names) > (what != "redo"):
        raise ToolcribError(
            "write /undo, /undo turn [N], /undo call [ID] or /undo redo; `force` after it, also for changed files"
        )
    undo, environment = chat.opening.crib.undo(chat.session.identity.session_id), chat.session.scope.environment
    plan = await undo.plan(UndoRequest(kinds[what], names[0] if names else "", force), environment)
    chat.screen.note("\n".join(planned(plan, time.time(), "/undo force")))
    if not plan.acting:
        raise ToolcribError("none of it can be undone; /undo turn N and /undo call ID go further back")
    if chat.opening.confirm is None:
        raise ToolcribError("nothing was done: nobody can be asked here; `toolcrib undo --yes` does it unasked")
    if not await chat.opening.confirm("Shall this be done?"):
        chat.screen.note("nothing was done")
        return
    carried = await undo.carry_out(plan, environment)
    chat.screen.text("\n".join(done(plan, carried)))


async def _diff(chat: Conversation, rest: str) -> None:
    from agent.cli.undoing import compared

    undo, environment = chat.opening.crib.undo(chat.session.identity.session_id), chat.session.scope.environment
    end = f"/{rest.removeprefix('./')}" if rest else ""
    found = [one for one in await undo.differences(environment) if f"/{one.path}".endswith(end)]
    if not found:
        raise ToolcribError(f"tools changed no file{f' {tame(rest)}' if rest else ''} in this session that is not as it was")
    chat.screen.diff("\n".join(compared(found)))


async def _cost(chat: Conversation, rest: str) -> None:
    from agent.cli.using import told
    from agent.usage import total

    chat.screen.text(told(total(await chat.opening.crib.store.usage.sums(session_id=chat.session.id))))


async def _new(chat: Conversation, rest: str) -> None:
    mode = chat.session.mode.now  # a mode is the person's, who has not switched it
    await chat.open(mode=mode)
    told = f", in mode {mode}" if mode != "default" else ""
    chat.screen.note(f"a new session{told}; the last one is kept, /sessions lists it")


async def _sessions(chat: Conversation, rest: str) -> None:
    found = await chat.opening.crib.store.sessions.list(10)
    if found:
        table(session_rows(found, time.time()))
    chat.screen.note("/resume ID continues one" if found else "nothing was said in any session yet")


async def _resume(chat: Conversation, rest: str) -> None:
    if not rest:
        raise ToolcribError("say which: /resume ID; /sessions lists them")
    await chat.open(resume=rest)
    await show_last(chat)
    await chat.go_on()


async def _approvals(chat: Conversation, rest: str) -> None:
    from agent.approvals import Approvals
    from agent.below import folders_of, refuse_below
    from agent.cli import agreed

    crib = chat.opening.crib
    approvals = Approvals(crib.store, crib.grants)
    if rest:
        word, _, prefix = rest.partition(" ")
        if word != "revoke" or not prefix.strip():
            raise ToolcribError("write /approvals, or /approvals revoke ID")
        refuse_below(folders_of(crib.config), "changing what was agreed")
        chat.screen.note(f"revoked: {exact(agreed.covers(await approvals.revoke(prefix.strip())))}")
        return
    grants = await approvals.grants(chat.session.identity.session_id)
    waiting = await approvals.pending(chat.session.identity.session_id)
    for found in (agreed.ticket_rows(waiting) if waiting else [], agreed.grant_rows(grants) if grants else []):
        table(found)
    if not grants and not waiting:
        chat.screen.note("nothing is granted in this session, and nothing waits for an answer")


async def _env(chat: Conversation, rest: str) -> None:
    backend, scope = chat.session.backend, chat.session.scope
    state = "its shell runs" if scope.opened is not None else "no command has run yet"
    chat.screen.text(f"commands run in {backend.name}: {backend.shown}\n  folder: {scope.cwd}\n  {state}")


async def _export(chat: Conversation, rest: str) -> None:
    from pathlib import Path

    from agent.exporting import export, form_of, write

    info = await chat.session.info()
    if info is None or not info.messages:
        raise ToolcribError("nothing was said yet")
    path = Path(rest or f"session-{info.id[:12]}.md")
    write(path, export(info, await chat.session.records(), form_of(path)))
    chat.screen.note(f"{tame(str(path))}: written")


async def show_last(chat: Conversation) -> None:
    """The end of what was said in the session, so that a person finds the thread again."""
    info = await chat.session.info()
    if info is not None:
        chat.screen.note(f"session {info.id[:12]}, {info.messages} message{'' if info.messages == 1 else 's'}: {info.title}")
    for line in exchanges(await chat.session.records(), _LAST):
        chat.screen.note(line)


COMMANDS: Mapping[str, Callable[[Any, str], Awaitable[None]]] = {
    "/help": _help,
    "/tools": _tools,
    "/model": _model,
    "/image": _image,
    "/explain": _explain,
    "/mode": _mode,
    "/undo": _undo,
    "/diff": _diff,
    "/cost": _cost,
    "/show": _show,
    "/new": _new,
    "/sessions": _sessions,
    "/resume": _resume,
    "/approvals": _approvals,
    "/env": _env,
    "/export": _export,
}
