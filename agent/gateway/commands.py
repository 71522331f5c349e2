"""What people type with a slash in a chat."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from agent.gateway.admission import OWNER, Admitted
from agent.gateway.deciding import scopes_of
from agent.gateway.forms import one_line
from agent.gateway.questions import NoSuchQuestion
from toolcrib import ToolcribError
from toolcrib._dataclass import dataclass
from toolcrib.chat import Chat, Inbound

if TYPE_CHECKING:
    from agent.conversation.manager import SessionManager
    from agent.gateway.questions import ChatQuestions
    from agent.gateway.rooms import Rooms

_SHOWN_ID = 8
_OTHERS = "That run is somebody else's."


@dataclass(frozen=True, slots=True)
class ChatCommand:
    """A command: its help, and the role that it needs, "" for none."""

    help: str
    run: Callable[[ChatCommands, Inbound, Admitted, str], Awaitable[str]]
    role: str = ""


class ChatCommands:
    """The commands of one platform's chats. ``status`` tells of the whole gateway."""

    def __init__(
        self, rooms: Rooms, questions: ChatQuestions, manager: SessionManager, status: Callable[[], Awaitable[str]]
    ) -> None:
        self.rooms = rooms
        self.questions = questions
        self.manager = manager
        self.status = status

    async def run(self, message: Inbound, who: Admitted) -> str | None:
        """Carry out a command, and return what to say; None for a message that is none. Raises StoreFailed."""
        head, _, rest = message.text.strip().partition(" ")
        name = head.partition("@")[0].lower()
        if not name.startswith("/") or not name[1:].isalpha():
            return None
        command = COMMANDS.get(name)
        if command is None:
            return f"There is no {name} here; /help lists what there is."
        if command.role and command.role not in who.roles:
            return f"{name} is for {command.role}."
        try:
            return await command.run(self, message, who, rest.strip())
        except NoSuchQuestion as error:
            return str(error)


async def _help(here: ChatCommands, message: Inbound, who: Admitted, text: str) -> str:
    lines = [f"{name} — {one.help}" for name, one in COMMANDS.items() if not one.role or one.role in who.roles]
    return "\n".join(["Write what you want done. Besides:", *lines])


async def _new(here: ChatCommands, message: Inbound, who: Admitted, text: str) -> str:
    room = await here.rooms.enter(message.chat, who)
    if await _is_others(here, room.session_id, who):
        return _OTHERS
    here.manager.interrupt_in(room.session_id)
    await here.rooms.renew(message.chat, who)
    return "A new session begins with your next message."


async def _stop(here: ChatCommands, message: Inbound, who: Admitted, text: str) -> str:
    room = await here.rooms.enter(message.chat, who)
    if not here.manager.at_work(room.session_id):
        return "Nothing runs here."
    if await _is_others(here, room.session_id, who):
        return _OTHERS
    here.manager.interrupt_in(room.session_id)
    return ""


async def _is_others(here: ChatCommands, session_id: str, who: Admitted) -> bool:
    """Return whether a run is under way that only its speaker, or the owner, may end."""
    if who.is_owner or not here.manager.at_work(session_id):
        return False
    session = await here.manager.opened(session_id)
    return session.identity.principal.person != who.user


async def _approvals(here: ChatCommands, message: Inbound, who: Admitted, text: str) -> str:
    found = await here.questions.waiting(message.chat)
    if not found:
        return "No question waits here."
    return "\n".join(f"{record.ticket.id[:_SHOWN_ID]}: {' '.join(record.ticket.message.split())[:200]}" for record in found)


async def _approve(here: ChatCommands, message: Inbound, who: Admitted, text: str) -> str:
    first, _, rest = text.partition(" ")
    named = first and all(letter in "0123456789abcdef" for letter in first)
    record = await here.questions.find(message.chat, first if named else "")
    scope = (rest.strip() if named else text) or "once"
    if scope not in scopes_of(record):
        return f"That scope is not offered; there is: {', '.join(scopes_of(record))}."
    return await here.questions.answer(record, who, message.name, {"approved": True, "scope": scope}, message.message_id)


async def _deny(here: ChatCommands, message: Inbound, who: Admitted, text: str) -> str:
    first, _, rest = text.partition(" ")
    named = len(first) >= 4 and all(letter in "0123456789abcdef" for letter in first)
    record = await here.questions.find(message.chat, first if named else "")
    reason = rest.strip() if named else text
    payload = {"approved": False, "reason": reason} if reason else {"approved": False}
    return await here.questions.answer(record, who, message.name, payload, message.message_id)


async def _tools(here: ChatCommands, message: Inbound, who: Admitted, text: str) -> str:
    room = await here.rooms.enter(message.chat, who)
    session = await here.manager.opened(room.session_id)
    return f"Tools here: {', '.join(session.names) or 'none'}"


async def _title(here: ChatCommands, message: Inbound, who: Admitted, text: str) -> str:
    room = await here.rooms.enter(message.chat, who)
    session = await here.manager.opened(room.session_id)
    if text:
        await session.store.sessions.label(room.session_id, title=one_line(text, 200))
        return "Named."
    info = await session.info()
    return (info.title if info is not None else "") or "This session has no title yet."


async def _status(here: ChatCommands, message: Inbound, who: Admitted, text: str) -> str:
    return await here.status()


COMMANDS: Mapping[str, ChatCommand] = {
    "/help": ChatCommand("this", _help),
    "/new": ChatCommand("begin a new session", _new),
    "/stop": ChatCommand("end what runs now", _stop),
    "/approvals": ChatCommand("the questions that wait here", _approvals),
    "/approve": ChatCommand("/approve [ID] [SCOPE] agrees", _approve),
    "/deny": ChatCommand("/deny [ID] [REASON] refuses", _deny),
    "/tools": ChatCommand("the tools of this chat", _tools),
    "/title": ChatCommand("/title TEXT names this session", _title),
    "/status": ChatCommand("what the gateway does", _status, role=OWNER),
}


def is_told(error: Exception) -> str:
    """Return what somebody is told of an error that kept their message from being answered."""
    return f"⚠ {error}" if isinstance(error, ToolcribError) else "⚠ Something went wrong; the operator finds it in the log."


def in_room(chat: Chat, name: str, text: str) -> str:
    """Return what a model reads of a message: in a group, who wrote it goes before."""
    shown = one_line(name)
    return f"{shown}: {text}" if chat.is_group and shown else text
