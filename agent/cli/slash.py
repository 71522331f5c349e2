"""The commands of a terminal's chat: lines that begin with a slash. To add one, write a function, list its name here, and add a
row to agent/desk/commands.py.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING

from agent.cli.escape import exact, tame
from agent.cli.faults import explained
from agent.cli.format_memory import show_memory
from agent.cli.helping import listed, show_help, show_keys
from agent.cli.render import first_sentence, table
from agent.cli.resuming import begin_anew, may_leave, resume
from agent.cli.server_offers import ServerOffer, prompt_in
from agent.cli.session_format import conversation
from agent.cli.words import ALONE, meant_by, words_of
from agent.desk.commands import ALIASES
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.suggest import near

if TYPE_CHECKING:
    from agent.cli.conversation import Conversation
    from agent.model_choice.models import ModelChoice


async def obey(chat: Conversation, line: str) -> bool:
    """Run a command. Return False if the user wants to leave."""
    word, _, rest = line.partition(" ")
    if word in ("/quit", "/exit"):
        return not await may_leave(chat, "leaving")
    command = COMMANDS.get(word) or _of_plugin(chat, word)
    if command is None and word in ALIASES:
        word = ALIASES[word]
        command = COMMANDS[word]
    if command is None and (prompt := prompt_in(word, chat.session.names)) is not None:
        command = partial(_prompt, prompt=prompt)
    if command is None:
        chat.screen.print_note(f"unknown command {word}; {meant_by(word, words_of(chat.opening.crib))}")
        return True
    try:
        if word in ALONE and rest.strip():
            more = "; to change notes: toolcrib memory edit, or toolcrib memory forget TEXT" if word == "/memory" else ""
            raise ToolcribError(f"{word} takes no arguments; nothing was done{more}")
        await command(chat, rest.strip())
    except ToolcribError as error:
        chat.screen.fault(f"✗ {explained(error)}")
    return True


def _of_plugin(chat: Conversation, word: str) -> Callable[[Conversation, str], Awaitable[None]] | None:
    """Return a function that runs a plugin's command, or None if no plugin has this command."""
    command = chat.opening.crib.slash.get(word.removeprefix("/"))
    if command is None or "terminal" not in command.surfaces:
        return None

    async def act(chat: Conversation, rest: str) -> None:
        try:
            said = command.function(rest, chat.session.identity)
            said = await said if isawaitable(said) else said
        except ToolcribError:
            raise
        except Exception as error:
            raise ToolcribError(f"the plugin's {word} failed: {type(error).__name__}: {error}") from error
        if said is not None:
            chat.screen.text(str(said))

    return act


async def _theme(chat: Conversation, rest: str) -> None:
    from agent.cli.screen.themes import NAMES

    if chat.reader is None:
        raise ToolcribError("themes work only on the chat's own screen, on a terminal that can redraw")
    if rest and rest not in NAMES:
        alike = near(rest, NAMES)
        named = f"did you mean {alike[0]}?" if alike else f"the themes are {', '.join(NAMES)}"
        raise ToolcribError(f"unknown theme {tame(rest)!r}; {named}")
    now = chat.reader.switch_theme(rest)
    if rest and now == "none" != rest:
        chat.screen.print_note("no colours: NO_COLOR is set, or display.color is never")
    elif rest:
        chat.screen.print_note(f"theme {now}; to keep it: toolcrib config set display.theme {rest}")
    else:
        listed(chat, [(f"{'→' if name == now else ' '} {name}", words) for name, words in NAMES.items()])


async def _tools(chat: Conversation, rest: str) -> None:
    entries = [entry for entry in chat.opening.crib.registry.entries() if entry.name in chat.session.names]
    table([(entry.emoji, f"@{entry.name}", first_sentence(entry.description)) for entry in entries], width=chat.screen.width)


async def _model(chat: Conversation, rest: str) -> None:
    from agent.cli.switching import also_there, choose, offers, pick_model

    if rest:
        await _switch_model(chat, await choose(chat, rest.split()))
        return
    found = await offers(chat)
    if chat.reader is not None and sum(len(offer.models) for offer in found) > 1:
        if (choice := await pick_model(chat, found, chat.reader)) is not None:
            await _switch_model(chat, choice)
        return
    if not chat.model and not found:
        from agent.cli.offer import HOW

        chat.screen.print_note(f"no model: call tools by hand.\n{HOW.format(command='chat')}")
        return
    chat.screen.text(chat.model or "no model: call tools by hand")
    for line in also_there(found, chat.model):
        chat.screen.print_note(tame(line))  # names come from the server


async def _switch_model(chat: Conversation, choice: ModelChoice) -> None:
    await chat.switch(choice)
    chat.screen.print_note(f"using {chat.model} from now on" if chat.model else "no model: call tools by hand")


async def _image(chat: Conversation, rest: str) -> None:
    from agent.cli.images import labels, read_typed

    if rest:
        if not chat.model:
            raise ToolcribError("no model is connected that could see it; to connect one: /model")
        chat.images.append(read_typed(rest))
        chat.screen.print_note(f"{labels(chat.images)} is attached to your next message")
        chat.screen.draw(chat.images[-1])
    elif chat.images:
        chat.screen.print_note(f"{labels(chat.images)} removed from your next message")
        chat.images.clear()
    else:
        raise ToolcribError("give the file: /image FILE")


async def _explain(chat: Conversation, rest: str) -> None:
    from agent.cli.explained import explanation_lines
    from agent.explaining import asked_about

    if not rest:
        raise ToolcribError("give the command: /explain COMMAND")
    session = chat.session
    explained = await session.explain(rest)
    person = asked_about(session.config, session.identity.platform, explained.findings)
    chat.screen.text("\n".join(explanation_lines(explained, person, session.config)))


async def _mode(chat: Conversation, rest: str) -> None:
    from tools.approval.modes import MODES

    if rest:
        await chat.set_mode(rest)
    rows = [("→" if mode == chat.session.mode.now else "", mode, words) for mode, words in MODES.items()]
    table(rows, width=chat.screen.width, wrap=True)


async def _plan(chat: Conversation, rest: str) -> None:
    from agent.cli.planning import obey_plan

    await obey_plan(chat, rest)


async def _show(chat: Conversation, rest: str) -> None:
    if rest == "all":
        info = await chat.session.info()
        if info is None or not info.messages:
            raise ToolcribError("this session has no messages yet")
        lines = conversation(info, await chat.session.records())
        text = chat.session.scope.redactor.text("".join(f"{line}\n" for line in lines))
        if chat.reader is None:
            chat.screen.text(text.rstrip("\n"))
        else:
            await chat.reader.read(text)
        return
    number = rest.removeprefix("#")
    if number and not number.isdecimal():
        raise ToolcribError("give the number: /show N; it is after the # at the end of a line")
    wanted = int(number) if number else None
    if chat.reader is not None:
        await chat.reader.show(wanted)
    else:
        chat.screen.text(chat.screen.whole(wanted))


async def _undo(chat: Conversation, rest: str) -> None:
    from agent.cli.format_undo import undo_in_chat

    await undo_in_chat(chat, rest)


async def _diff(chat: Conversation, rest: str) -> None:
    from agent.cli.format_undo import compared, project_of

    undo, environment = chat.opening.crib.undo(chat.session.identity.session_id), chat.session.scope.environment
    turn, end = (int(rest), "") if rest.isdecimal() else (0, f"/{rest.removeprefix('./')}" if rest else "")
    found = [one for one in await undo.differences(environment, turn) if f"/{one.path}".endswith(end)]
    if not found:
        where, which = f"turn {turn}" if turn else "this session", f" of {tame(rest)}" if end else ""
        raise ToolcribError(f"no differences{which} in {where}: no tool changed a file, or the files are as they were before")
    chat.screen.diff(compared(found, folder=project_of(chat.session)))


async def _cost(chat: Conversation, rest: str) -> None:
    from agent.cli.format_usage import lines_of

    chat.screen.text("\n".join(await lines_of(chat.opening.crib.store, chat.session.id)))


async def _delegates(chat: Conversation, rest: str) -> None:
    from agent.cli.delegating import obey_delegates

    await obey_delegates(chat, rest)


async def _ps(chat: Conversation, rest: str) -> None:
    from agent.cli.chat_processes import obey_ps

    await obey_ps(chat, rest)


async def _mcp(chat: Conversation, rest: str) -> None:
    from agent.cli.chat_servers import obey_mcp

    await obey_mcp(chat, rest)


async def _prompt(chat: Conversation, rest: str, prompt: ServerOffer) -> None:
    from agent.cli.server_prompts import send_prompt

    await send_prompt(chat, prompt, rest)


async def _of_session(chat: Conversation, rest: str, command: str) -> None:
    from agent.cli.session_commands import COMMANDS

    await COMMANDS[command](chat, rest)


async def _approvals(chat: Conversation, rest: str) -> None:
    from agent.cli import format_grants
    from agent.cli.session_commands import refuse_below_session
    from agent.policy.approvals import Approvals

    crib = chat.opening.crib
    approvals = Approvals(crib.store, crib.grants)
    if rest:
        word, _, prefix = rest.partition(" ")
        if word != "revoke" or not prefix.strip():
            raise ToolcribError("use /approvals, or /approvals revoke ID")
        refuse_below_session(chat, "changing grants")
        chat.screen.print_note(f"revoked: {exact(format_grants.covers(await approvals.revoke(prefix.strip())))}")
        return
    grants = await approvals.grants(chat.session.identity.session_id)
    asked = [chat.session.id, *(one.session_id for one in chat.session.delegates.at_work)]
    waiting = [one.record for session_id in asked for one in await crib.desk.approvals.waiting(session_id)]
    width = chat.screen.width
    table(format_grants.ticket_rows(waiting) if waiting else [], spare=format_grants.SPARE_OF_TICKETS, whole=(3,), width=width)
    table(format_grants.grant_rows(grants) if grants else [], spare=format_grants.SPARE_OF_GRANTS, whole=(1,), width=width)
    if not grants and not waiting:
        chat.screen.print_note("this session has no grants and no pending requests")


async def _env(chat: Conversation, rest: str) -> None:
    backend, scope = chat.session.backend, chat.session.scope
    state = "the shell is running" if scope.opened is not None else "no command has run yet"
    chat.screen.text(f"commands run in {backend.name}: {backend.shown}\n  folder: {scope.cwd}\n  {state}")


async def _init(chat: Conversation, rest: str) -> None:
    from agent.cli.initing import init

    await init(chat, rest)


async def _export(chat: Conversation, rest: str) -> None:
    from agent.cli.session_commands import export_chat

    await export_chat(chat, rest)


COMMANDS: Mapping[str, Callable[[Conversation, str], Awaitable[None]]] = {
    "/help": show_help,
    "/keys": show_keys,
    "/theme": _theme,
    "/tools": _tools,
    "/model": _model,
    "/image": _image,
    "/explain": _explain,
    "/mode": _mode,
    "/plan": _plan,
    "/undo": _undo,
    "/diff": _diff,
    "/cost": _cost,
    "/memory": show_memory,
    "/show": _show,
    "/new": begin_anew,
    **{name: partial(_of_session, command=name) for name in ("/fork", "/compress", "/context", "/title", "/sessions")},
    "/resume": resume,
    "/approvals": _approvals,
    "/env": _env,
    "/delegates": _delegates,
    "/ps": _ps,
    "/mcp": _mcp,
    "/export": _export,
    "/init": _init,
}
