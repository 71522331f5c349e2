"""The chat's own commands, by name: what each is for. slash.py runs them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent.crib import Crib

AT_ONCE = frozenset(
    {
        "/help",
        "/mode",
        "/show",
        "/cost",
        "/context",
        "/approvals",
        "/env",
        "/diff",
        "/tools",
        "/memory",
        "/keys",
        "/theme",
        "/title",
        "/delegates",
        "/h",
        "/?",
    }
)
"""Commands that are done while the model works; others wait for their turn."""
ALIASES = {"/clear": "/new", "/reset": "/new", "/compact": "/compress", "/h": "/help", "/?": "/help"}
"""Words that people know from elsewhere -> the command that does the same here."""
_OUTSIDE = "outside of the chat: toolcrib"
ELSEWHERE = {
    "/agents": "/delegates lists the delegates at work",
    "/cd": "!cd FOLDER goes there, and so do the commands after it",
    "/config": f"{_OUTSIDE} config edit",
    "/continue": "/sessions lists the last sessions, /resume ID continues one",
    "/doctor": f"{_OUTSIDE} doctor",
    "/edit": "Ctrl-X Ctrl-E opens what you type in your editor",
    "/history": "Ctrl-R searches what you typed, /sessions lists the last sessions",
    "/login": f"{_OUTSIDE} config set model, and the key in OPENAI_API_KEY or model.key_env",
    "/mcp": "/tools lists the tools of this session",
    "/models": "/model lists them, /model NAME takes one",
    "/permissions": "/approvals lists what is granted, /mode what is asked",
    "/plan": "/mode plan lets the model read only",
    "/plugins": f"{_OUTSIDE} plugins",
    "/rename": "/title TEXT names this session",
    "/review": "say it as a message: review what changed; /diff shows it to you",
    "/rewind": "/undo takes file changes back, /fork N goes on with your last N messages",
    "/save": "the session is kept by itself; /export writes it into a file",
    "/settings": f"{_OUTSIDE} config edit",
    "/status": "/context tells what fills the model's context, /cost what was used",
    "/todos": "/show N shows the list of a todo call, by the #N behind it",
    "/usage": "/cost tells what this session used; outside of the chat: toolcrib usage",
    "/version": f"{_OUTSIDE} --version",
}
"""Commands that people know from elsewhere -> what does here what they want."""
_ALIKE = 0.7


def meant_by(word: str, known: Iterable[str]) -> str:
    """Say what an unknown command may have been meant for: what does here what it does elsewhere, or a name much like it."""
    from toolcrib._near import near

    if word in ELSEWHERE:
        return ELSEWHERE[word]
    names = {name.removeprefix("/"): name for name in known}
    name = word.removeprefix("/")
    begun = [one for one in names if name and len(name) > 1 and one.startswith(name)]
    alike = begun if len(begun) == 1 else near(name, names, cutoff=_ALIKE)
    return f"did you mean {names[alike[0]]}?" if alike else "/help lists what there is"


SLASH = {
    "/help": "this",
    "/keys": "all keys of the chat, and what they do",
    "/theme": "/theme NAME switches the colours: dark, light, colorblind, none; /theme alone shows a sample",
    "/tools": "the tools of this session",
    "/model": "which model answers; /model NAME, or /model PROVIDER NAME, takes another one",
    "/image": "/image FILE shows a picture with the next message; /image alone removes it",
    "/explain": "/explain COMMAND tells what would be said of a command here and now; nothing is run",
    "/mode": "what is asked besides; /mode default, /mode confirm-edits and /mode plan switch it",
    "/undo": "undo the last turn's file changes; /undo call, the last call's; /undo redo makes them again",
    "/diff": "what tools changed in files in this session; /diff FILE, in one of them",
    "/cost": "tokens, cost and calls of this session; `toolcrib usage` has all of them",
    "/show": "/show N prints whole what was shown in short, with #N behind it; /show alone, the last one; /show all, the session",
    "/memory": "what is remembered of you and of this project, with where it is from; `toolcrib memory` changes it",
    "/new": "begin a new session",
    "/fork": "/fork [N] begins a session that takes over your last N messages and what followed; without N what fits well",
    "/compress": "summarise the middle of this session now, nothing is lost; /compress WISH says what the summary is to keep",
    "/context": "what fills the model's context, and how much it can read",
    "/title": "/title TEXT names this session; /title alone tells its title and tags",
    "/sessions": "the last sessions, with titles and tags",
    "/resume": "/resume ID continues one; /resume alone lists the last ones",
    "/approvals": "what is granted here and what waits; /approvals revoke ID takes one back",
    "/delegates": "the delegates that work in the background; /delegates stop ID ends one",
    "/env": "where commands run, and in which folder",
    "/export": "/export [FILE.md|.html|.json] writes the session into a file; --force, over one that is there",
    "/init": "draft an AGENTS.md of this project, or propose a better one; /init WISHES says what matters",
    "/quit": "leave (/exit and Ctrl-D do too)",
}


def words_of(crib: Crib) -> Mapping[str, str]:
    """Return all commands of a chat: ours, and those of plugins, which ours go before."""
    added = {f"/{name}": (inspect.getdoc(function) or _origin(function)).splitlines()[0] for name, function in crib.slash.items()}
    return {**added, **SLASH}


def _origin(function: Callable[..., Any]) -> str:
    """Return which plugin a function without a docstring is of."""
    module = str(getattr(function, "__module__", "")).partition(".")[0]
    name = module.split("_", 3)[-1] if module.startswith("toolcrib_plugin_") else module
    return f"a command of the plugin {name}; its function has no docstring"
