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
    works. ``alone``: the command takes no arguments; an interface must not discard text after it. ``arguments``: as ``--help``
    shows them.
    """

    words: str
    surfaces: Sequence[Surface] = TERMINAL
    in_chat: str = ""
    role: str = ""
    at_once: bool = False
    alone: bool = False
    arguments: str = ""


def on(surface: Surface) -> Mapping[str, SlashCommand]:
    """Return the commands of an interface by name, with the slash."""
    return {name: row for name, row in SLASH_COMMANDS.items() if surface in row.surfaces}


ALIASES = {"/clear": "/new", "/reset": "/new", "/compact": "/compress", "/h": "/help", "/?": "/help", "/start": "/help"}
"""Names that users know from other programs -> the command that does the same here."""
SLASH_COMMANDS: Mapping[str, SlashCommand] = {
    "/help": SlashCommand("this", surfaces=SURFACES, at_once=True),
    "/keys": SlashCommand("all keys of the chat and their effects", at_once=True, alone=True),
    "/theme": SlashCommand(
        "/theme NAME switches the colours: dark, light, colorblind, none; /theme alone shows a sample",
        at_once=True,
        arguments="[NAME]",
    ),
    "/tools": SlashCommand(
        "the tools of this session", surfaces=SURFACES, in_chat="the tools of this chat", at_once=True, alone=True
    ),
    "/model": SlashCommand(
        "list models to pick from; /model NAME, or /model PROVIDER NAME, switches to another one", arguments="[[PROVIDER] NAME]"
    ),
    "/image": SlashCommand("/image FILE shows a picture with the next message; /image alone removes it", arguments="FILE"),
    "/explain": SlashCommand(
        "/explain COMMAND shows how a command would be judged here and now; nothing is run", arguments="COMMAND"
    ),
    "/mode": SlashCommand(
        "show the approval mode; /mode default, cautious, plan or confirm-edits switches it", at_once=True, arguments="[NAME]"
    ),
    "/plan": SlashCommand(
        "switch to plan mode; /plan accept, edit or reject decides about the model's plan", arguments="[accept|edit|reject]"
    ),
    "/undo": SlashCommand(
        "undo the last turn's file changes; /undo N, those of turn N; /undo call, the last call's; /undo redo",
        arguments="[call|redo]",
    ),
    "/diff": SlashCommand(
        "show the file changes of this session's tools; /diff FILE, those of one file", at_once=True, arguments="[FILE]"
    ),
    "/cost": SlashCommand("tokens, cost and calls of this session; `toolcrib usage` has all of them", at_once=True, alone=True),
    "/show": SlashCommand(
        "/show N prints the shortened item #N in full; /show alone, the last one; /show all, the session",
        at_once=True,
        arguments="N",
    ),
    "/memory": SlashCommand(
        "the notes about you and this project, with their sources; `toolcrib memory` changes them",
        at_once=True,
        alone=True,
    ),
    "/new": SlashCommand("start a new session", surfaces=SURFACES, in_chat="start a new session", alone=True),
    "/fork": SlashCommand(
        "/fork [N] starts a session with your last N messages and their answers; without N, as many as fit well", arguments="[N]"
    ),
    "/compress": SlashCommand(
        "summarise the middle of this session now, nothing is lost; /compress TEXT names what the summary should keep",
        arguments="[TEXT]",
    ),
    "/context": SlashCommand("the use of the model's context, by part, and its size", at_once=True, alone=True),
    "/title": SlashCommand(
        "/title TEXT names this session; /title alone shows its title and tags",
        surfaces=SURFACES,
        in_chat="/title TEXT names this session",
        at_once=True,
        arguments="[TEXT]",
    ),
    "/sessions": SlashCommand("the last sessions, with titles and tags", alone=True),
    "/resume": SlashCommand("/resume ID resumes a session; /resume alone lists sessions to pick from", arguments="ID"),
    "/approvals": SlashCommand(
        "the grants and open approval requests and questions of this session; /approvals revoke ID revokes a grant",
        surfaces=SURFACES,
        in_chat="the open approval requests and questions of this chat",
        at_once=True,
        arguments="[revoke ID]",
    ),
    "/delegates": SlashCommand(
        "the delegates that work in the background; /delegates stop ID ends one", at_once=True, arguments="[stop ID]"
    ),
    "/ps": SlashCommand(
        "the background processes of this session; /ps log NAME shows the end of one's output, /ps screen NAME its terminal,"
        " /ps attach NAME opens it, /ps stop NAME ends one",
        surfaces=SURFACES,
        in_chat="the background processes of this chat; /ps log NAME, screen NAME or stop NAME",
        at_once=True,
        arguments="[log|screen|attach|stop NAME]",
    ),
    "/mcp": SlashCommand(
        "the MCP servers; /mcp reload takes changes of their configuration and their locks, for new sessions",
        at_once=True,
        arguments="[reload]",
    ),
    "/env": SlashCommand("the backend and folder that commands run in", at_once=True, alone=True),
    "/export": SlashCommand(
        "/export [FILE.md|.html|.json] writes the session to a file; --force replaces an existing file", arguments="[FILE]"
    ),
    "/init": SlashCommand("draft an AGENTS.md of this project, or propose a better one; /init TEXT adds requirements"),
    "/quit": SlashCommand("leave (/exit and Ctrl-D do too)"),
    "/stop": SlashCommand("end the current run", surfaces=_CHAT),
    "/busy": SlashCommand(
        "/busy queue, steer or interrupt sets what a message does during a run; /busy alone shows it", surfaces=_CHAT
    ),
    "/approve": SlashCommand("/approve [ID] [SCOPE] approves a request", surfaces=_CHAT),
    "/deny": SlashCommand("/deny [ID] [REASON] denies a request", surfaces=_CHAT),
    "/jobs": SlashCommand("the jobs of this chat; /jobs stop, pause, resume or remove ID", surfaces=_CHAT),
    "/status": SlashCommand("show the state of the gateway", surfaces=_CHAT, role="owner"),
}
