"""The chat's own commands, by name: what each is for. slash.py runs them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
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
    }
)
"""Commands that are done while the model works; others wait for their turn."""
ELSEWHERE = {
    "/clear": "/new begins a new session",
    "/reset": "/new begins a new session",
    "/compact": "/compress makes room in the context",
    "/compress": "/fork begins a session that takes over your last messages",
    "/rename": "/title TEXT names this session",
    "/status": "/context tells what fills the model's context, /cost what was used",
    "/config": "outside of the chat: toolcrib config edit",
    "/settings": "outside of the chat: toolcrib config edit",
    "/permissions": "/approvals lists what is granted, /mode what is asked",
}
"""Commands that people know from elsewhere -> what does here what they want; their letters are like those of others."""
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
