"""The slash commands of all interfaces: which interfaces have them, what they do, and who may use them.

agent/cli/slash.py runs them in a terminal, agent/gateway/commands.py in the chats of a gateway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from toolcrib.contract.dataclass import dataclass

Surface: TypeAlias = Literal["terminal", "chat"]
SURFACES: Sequence[Surface] = ("terminal", "chat")
TERMINAL: Sequence[Surface] = ("terminal",)
_CHAT: Sequence[Surface] = ("chat",)


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """A command's row. ``words`` describe it; ``in_chat`` describes it in a chat, if it differs there.

    ``role``: the role that may use it in a chat, "" for every user of the chat. ``at_once``: a terminal runs it while the model
    works. ``alone``: the command takes no arguments; an interface must not discard text after it.
    """

    words: str
    surfaces: Sequence[Surface] = TERMINAL
    in_chat: str = ""
    role: str = ""
    at_once: bool = False
    alone: bool = False


def on(surface: Surface) -> Mapping[str, SlashCommand]:
    """Return the commands of an interface by name, with the slash."""
    return {name: row for name, row in SLASH_COMMANDS.items() if surface in row.surfaces}


ALIASES = {"/clear": "/new", "/reset": "/new", "/compact": "/compress", "/h": "/help", "/?": "/help", "/start": "/help"}
"""Names that users know from other programs -> the command that does the same here."""
SLASH_COMMANDS: Mapping[str, SlashCommand] = {
    "/help": SlashCommand("this", surfaces=SURFACES, at_once=True),
    "/keys": SlashCommand("all keys of the chat, and what they do", at_once=True, alone=True),
    "/theme": SlashCommand(
        "/theme NAME switches the colours: dark, light, colorblind, none; /theme alone shows a sample", at_once=True
    ),
    "/tools": SlashCommand(
        "the tools of this session", surfaces=SURFACES, in_chat="the tools of this chat", at_once=True, alone=True
    ),
    "/model": SlashCommand("which model answers; /model NAME, or /model PROVIDER NAME, takes another one"),
    "/image": SlashCommand("/image FILE shows a picture with the next message; /image alone removes it"),
    "/explain": SlashCommand("/explain COMMAND tells what would be said of a command here and now; nothing is run"),
    "/mode": SlashCommand("what is asked besides; /mode default, cautious, plan or confirm-edits switches it", at_once=True),
    "/undo": SlashCommand("undo the last turn's file changes; /undo call, the last call's; /undo redo makes them again"),
    "/diff": SlashCommand("what tools changed in files in this session; /diff FILE, in one of them", at_once=True),
    "/cost": SlashCommand("tokens, cost and calls of this session; `toolcrib usage` has all of them", at_once=True, alone=True),
    "/show": SlashCommand(
        "/show N prints whole what was shown in short, with #N behind it; /show alone, the last one; /show all, the session",
        at_once=True,
    ),
    "/memory": SlashCommand(
        "what is remembered of you and of this project, with where it is from; `toolcrib memory` changes it",
        at_once=True,
        alone=True,
    ),
    "/new": SlashCommand("begin a new session", surfaces=SURFACES, in_chat="begin a new session", alone=True),
    "/fork": SlashCommand(
        "/fork [N] begins a session that takes over your last N messages and what followed; without N what fits well"
    ),
    "/compress": SlashCommand(
        "summarise the middle of this session now, nothing is lost; /compress WISH says what the summary is to keep"
    ),
    "/context": SlashCommand("what fills the model's context, and how much it can read", at_once=True, alone=True),
    "/title": SlashCommand(
        "/title TEXT names this session; /title alone tells its title and tags",
        surfaces=SURFACES,
        in_chat="/title TEXT names this session",
        at_once=True,
    ),
    "/sessions": SlashCommand("the last sessions, with titles and tags", alone=True),
    "/resume": SlashCommand("/resume ID continues one; /resume alone lists the last ones"),
    "/approvals": SlashCommand(
        "what is granted here and what waits; /approvals revoke ID takes one back",
        surfaces=SURFACES,
        in_chat="the questions that wait here",
        at_once=True,
    ),
    "/delegates": SlashCommand("the delegates that work in the background; /delegates stop ID ends one", at_once=True),
    "/env": SlashCommand("where commands run, and in which folder", at_once=True, alone=True),
    "/export": SlashCommand("/export [FILE.md|.html|.json] writes the session into a file; --force, over one that is there"),
    "/init": SlashCommand("draft an AGENTS.md of this project, or propose a better one; /init WISHES says what matters"),
    "/quit": SlashCommand("leave (/exit and Ctrl-D do too)"),
    "/stop": SlashCommand("end what runs now", surfaces=_CHAT),
    "/busy": SlashCommand(
        "/busy queue, steer or interrupt: what a message does here while a run is under way; /busy alone tells", surfaces=_CHAT
    ),
    "/approve": SlashCommand("/approve [ID] [SCOPE] agrees", surfaces=_CHAT),
    "/deny": SlashCommand("/deny [ID] [REASON] refuses", surfaces=_CHAT),
    "/jobs": SlashCommand("the jobs of this chat; /jobs stop, pause, resume or remove ID", surfaces=_CHAT),
    "/status": SlashCommand("what the gateway does", surfaces=_CHAT, role="owner"),
}
