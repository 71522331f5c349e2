"""Slash commands that users type in a chat."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import TYPE_CHECKING

from agent.desk.approvals import scopes_of
from agent.desk.commands import ALIASES, on
from agent.gateway.admission import Admitted
from agent.gateway.chat_processes import processes_of
from agent.gateway.forms import one_line
from agent.gateway.managing import jobs_in
from agent.gateway.questions import NoSuchQuestion
from agent.gateway.showing import SHOWN_ID
from toolcrib.contract.chat import Chat, Inbound
from toolcrib.contract.context import Principal
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.image import Image

if TYPE_CHECKING:
    from agent.desk.hosted_sessions import HostedSessions
    from agent.gateway.questions import ChatQuestions
    from agent.gateway.rooms import Rooms
    from agent.plugin_host.slash_commands import PluginSlash

_log = logging.getLogger(__name__)
BUSY_MODES = ("queue", "steer", "interrupt")
_TAKES_BACK = ("/stop", "/new", "/deny", "/jobs", "/ps")
_NO_DECISION = (*_TAKES_BACK, "/help", "/approvals", "/tools", "/title", "/status")
"""Commands for a sender who may not decide anything (see ``Inbound.locked``): they show, end or refuse something."""
_OTHERS = "Another user started that run."


class ChatCommands:
    """The commands of one platform's chats. ``status`` returns a text about the whole gateway."""

    def __init__(
        self,
        rooms: Rooms,
        questions: ChatQuestions,
        manager: HostedSessions,
        status: Callable[[], Awaitable[str]],
        added: Mapping[str, PluginSlash],
        redact: Callable[[str], str],
        withdraw: Callable[[str], Awaitable[bool]],
    ) -> None:
        self.rooms = rooms
        self.questions = questions
        self.manager = manager
        self.status = status
        self.added = added
        self.redact = redact
        self.withdraw = withdraw
        """Withdraws the parts of answers that are not shown yet in a chat, by Chat.key."""

    async def run(self, message: Inbound, who: Admitted) -> str | None:
        """Run a command, and return the reply; None for a message that is not a command. Raises StoreFailed."""
        head, _, rest = message.text.strip().partition(" ")
        word = head.partition("@")[0].lower()
        if not word.startswith("/") or not (word[1:].isalpha() or word[1:] in self.added):
            return None
        roles = self._roles()
        name = word if word in roles else ALIASES.get(word, word)
        role = roles.get(name)
        if role is None:
            return f"Unknown command: {word}. /help lists the commands."
        if role and role not in who.roles:
            return f"{name} needs the role {role}."
        if who.locked and name not in _NO_DECISION:
            return who.locked
        try:
            if name in COMMANDS:
                return await COMMANDS[name](self, message, who, rest.strip())
            return await self._of_plugin(name, message, who, rest.strip())
        except NoSuchQuestion as error:
            return str(error)

    def offered(self, who: Admitted) -> dict[str, str]:
        """Return the commands that a user may use here, by name, with their descriptions."""
        roles = self._roles()
        words = {f"/{name}": command.words for name, command in self.added.items()}
        words |= {name: row.in_chat or row.words for name, row in on("chat").items()}
        return {name: words[name] for name, role in roles.items() if not role or role in who.roles}

    def _roles(self) -> dict[str, str]:
        """Return the commands of chats, built-in ones first, with the role that each needs."""
        ours = {name: row.role for name, row in on("chat").items()}
        return ours | {
            f"/{name}": command.role
            for name, command in self.added.items()
            if "chat" in command.surfaces and f"/{name}" not in ours
        }

    async def _of_plugin(self, name: str, message: Inbound, who: Admitted, text: str) -> str:
        room = await self.rooms.enter(message.chat, who)
        session = await self.manager.opened(room.session_id)
        principal = self.rooms.requests.principal(message.chat, who)
        identity = replace(session.identity, user=principal.user, roles=principal.roles, speaker=principal.speaker)
        try:
            said = await asyncio.to_thread(self.added[name.removeprefix("/")].function, text, identity)
            said = await said if isawaitable(said) else said
        except ToolcribError:
            raise
        except Exception as error:
            _log.exception("command %s of a plugin failed", name)
            raise ToolcribError(f"{name} failed; the operator's log has details") from error
        return "" if said is None else self.redact(str(said))


async def _help(here: ChatCommands, message: Inbound, who: Admitted, text: str) -> str:
    lines = [f"{name} — {words}" for name, words in here.offered(who).items()]
    return "\n".join(["Write what you want done. Commands:", *lines])


async def _new(here: ChatCommands, message: Inbound, who: Admitted, text: str) -> str:
    room = await here.rooms.enter(message.chat, who)
    if await _is_others(here, room.session_id, who):
        return _OTHERS
    others = await here.manager.waiting_of_others(room.session_id, who.user) if message.chat.is_group else ()
    begun = await here.rooms.renew(message.chat, who)
    for item in others:  # their messages were for the group, not for the session
        images = [Image.from_json(one) for one in item.images]
        theirs = Principal.from_json(item.principal)
        await here.manager.say_in(begun.session_id, item.text, images, principal=theirs, message_key=item.key)
    return "Your next message starts a new session."


async def _stop(here: ChatCommands, message: Inbound, who: Admitted, text: str) -> str:
    room = await here.rooms.enter(message.chat, who)
    may_withdraw = who.is_owner or not message.chat.is_group  # in a group the answer may be for another user
    if not here.questions.open_in(room.session_id) and not await here.manager.has_left(room.session_id):
        is_withdrawn = may_withdraw and await here.withdraw(message.chat.key)
        return "Stopped. The rest of the answer is not shown." if is_withdrawn else "Nothing is running here."
    if await _is_others(here, room.session_id, who):
        return _OTHERS
    if may_withdraw:
        await here.withdraw(message.chat.key)
    if here.manager.at_work(room.session_id):
        is_stopped = await here.manager.stop_run(room.session_id, "" if who.is_owner else who.user)
        return "" if is_stopped else "Nothing is running here."
    await here.manager.end_unfinished(room.session_id)
    await here.questions.refresh(room.session_id)
    return "Stopped. The request was not carried out."


async def _is_others(here: ChatCommands, session_id: str, who: Admitted) -> bool:
    """Return whether another user started the session's run, running or parked. False for the owner, who may end any run."""
    if who.is_owner:
        return False
    if not here.manager.at_work(session_id) and (asker := await here.questions.asker_in(session_id)) is not None:
        return asker.person != who.user
    return await here.manager.speaker_in(session_id) not in ("", who.user)


async def _approvals(here: ChatCommands, message: Inbound, who: Admitted, text: str) -> str:
    found = await here.questions.waiting(message.chat)
    if not found:
        return "Nothing here waits for an answer."
    return "\n".join(f"{record.ticket.id[:SHOWN_ID]}: {' '.join(record.ticket.message.split())[:200]}" for record in found)


async def _approve(here: ChatCommands, message: Inbound, who: Admitted, text: str) -> str:
    first, _, rest = text.partition(" ")
    named = first and all(letter in "0123456789abcdef" for letter in first)
    record = await here.questions.find(message, first if named else "", approves=True)
    scope = (rest.strip() if named else text) or "once"
    if scope not in scopes_of(record):
        return f"That scope is not available. Choose from: {', '.join(scopes_of(record))}."
    payload = {"approved": True, "scope": scope}
    return await here.questions.answer(record, who, message.name, payload, message.message_id, is_written=True)


async def _deny(here: ChatCommands, message: Inbound, who: Admitted, text: str) -> str:
    first, _, rest = text.partition(" ")
    named = len(first) >= 4 and all(letter in "0123456789abcdef" for letter in first)
    try:
        record = await here.questions.find(message, first if named else "")
    except NoSuchQuestion:
        if not named or len(first) >= SHOWN_ID:
            raise
        named = False  # a reason that happens to start with hexadecimal letters
        record = await here.questions.find(message, "")
    reason = rest.strip() if named else text
    payload = {"approved": False, "reason": reason} if reason else {"approved": False}
    return await here.questions.answer(record, who, message.name, payload, message.message_id, is_written=True)


async def _tools(here: ChatCommands, message: Inbound, who: Admitted, text: str) -> str:
    room = await here.rooms.enter(message.chat, who)
    session = await here.manager.opened(room.session_id)
    why = await here.rooms.requests.why_without_place(room.session_id)
    if why and not who.is_owner:
        why = "No tool here reads, changes or runs anything: this chat has no environment."
    return "\n".join(filter(None, [f"Tools in this chat: {', '.join(session.names) or 'none'}", why]))


async def _title(here: ChatCommands, message: Inbound, who: Admitted, text: str) -> str:
    room = await here.rooms.enter(message.chat, who)
    session = await here.manager.opened(room.session_id)
    if text:
        await session.store.sessions.label(room.session_id, title=one_line(text, 200))
        return "Title set."
    info = await session.info()
    return (info.title if info is not None else "") or "This session has no title."


async def _busy(here: ChatCommands, message: Inbound, who: Admitted, text: str) -> str:
    """Show or set the mode for messages during a run; only the owner may set it in a group."""
    if not text:
        return f"Mode for messages that arrive during a run: {await here.rooms.busy(message.chat, who)}."
    if text not in BUSY_MODES:
        return f"Choose one of {', '.join(BUSY_MODES)}."
    if message.chat.is_group and not who.is_owner:
        return "In a group only the owner may change this."
    await here.rooms.set_busy(message.chat, who, text)
    return f"Mode for messages that arrive during a run: {text}."


async def _jobs(here: ChatCommands, message: Inbound, who: Admitted, text: str) -> str:
    if who.locked and text.startswith("resume"):
        return who.locked
    return await jobs_in(here.rooms, message.chat, who, text)


async def _ps(here: ChatCommands, message: Inbound, who: Admitted, text: str) -> str:
    room = await here.rooms.enter(message.chat, who)
    return await processes_of(await here.manager.opened(room.session_id), text)


async def _status(here: ChatCommands, message: Inbound, who: Admitted, text: str) -> str:
    return await here.status()


COMMANDS: Mapping[str, Callable[[ChatCommands, Inbound, Admitted, str], Awaitable[str]]] = {
    "/help": _help,
    "/new": _new,
    "/stop": _stop,
    "/approvals": _approvals,
    "/approve": _approve,
    "/deny": _deny,
    "/tools": _tools,
    "/title": _title,
    "/busy": _busy,
    "/jobs": _jobs,
    "/ps": _ps,
    "/status": _status,
}
"""Functions that run the chat commands of agent.desk.commands."""


def takes_back(text: str) -> bool:
    """Return whether a message is a command that only ends or refuses something."""
    word = text.strip().partition(" ")[0].partition("@")[0].lower()
    return ALIASES.get(word, word) in _TAKES_BACK


def in_room(chat: Chat, name: str, text: str) -> str:
    """Return the text of a message as the model reads it: in a group, it begins with the writer's name."""
    shown = one_line(name)
    return f"{shown}: {text}" if chat.is_group and shown else text
