"""Arguments of ``terminal`` that start a background process."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from toolcrib.contract.errors import InvalidArguments
from toolcrib.contract.regex import Regex
from toolcrib.contract.types import Json
from tools.contained.outside import plain_schema, without
from tools.terminals.arguments import IN_TERMINAL

TOOL, TOOLSET = "process", "terminal"
"""Name and toolset of the tool that looks after background processes."""
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}"
"""Pattern of a process's name."""
NAMED = Regex(NAME)
EXIT = "exit"
"""The value of ``notify`` that asks for a notice at the end; all other values are patterns."""
_MOST, _LONGEST = 8, 200
BACKGROUND: Mapping[str, Json] = MappingProxyType(
    {
        "background": {"type": "boolean", "description": "Returns at once; see process."},
        "name": {"type": "string", "description": "Of the process."},
        "input": {"type": "boolean", "description": "Its input stays open."},
        "notify": {
            "type": "array",
            "items": {"type": "string"},
            "description": f"Messages: {EXIT}, or a regex (grep -E) for a line.",
        },
    }
)


def schema_for(schema: dict[str, Json], names: frozenset[str]) -> dict[str, Json]:
    """Return the schema of ``terminal`` for a session without a sandbox, and without ``process`` if that is not available."""
    schema = plain_schema(schema, names)
    return schema if TOOL in names else without(schema, *BACKGROUND, *IN_TERMINAL)


def sandboxed_schema(schema: Mapping[str, Json], names: Collection[str], offered: Mapping[str, bool]) -> dict[str, Json]:
    """Return the schema of ``terminal`` for a sandboxed session that has the tools ``names``. ``offered``: whether the session
    offers a parameter of sandboxes.
    """
    left_out = [name for name, is_offered in offered.items() if not is_offered]
    return without(schema, *left_out, *(() if TOOL in names else [*BACKGROUND, *IN_TERMINAL]))


def check_background(args: Mapping[str, Any]) -> None:
    """Check what JSON Schema cannot express. Raises InvalidArguments."""
    background, in_terminal = args.get("background") is True, args.get("pty") is True
    if not background:
        allowed = {"background", "name", "input"} if in_terminal else {"background"}
        if given := [name for name in BACKGROUND if name not in allowed and args.get(name)]:
            raise InvalidArguments(f"{given[0]}: only for a background process; add background: true, or leave it out")
    elif args.get("timeout") is not None:
        raise InvalidArguments("timeout: a background process has none; end it with the tool process, or leave this out")
    if not background and not in_terminal:
        return
    if not NAMED.fullmatch(str(args.get("name") or "x")):
        raise InvalidArguments("name: up to 40 letters, digits and . _ -, the first a letter or digit")
    if len(args.get("notify") or ()) > _MOST or any(not 0 < len(text) <= _LONGEST for text in args.get("notify") or ()):
        raise InvalidArguments(f"notify: at most {_MOST} patterns of at most {_LONGEST} characters")
    if in_terminal and patterns_of(args):
        raise InvalidArguments(f"notify: a terminal only reports {EXIT}; wait for a pattern with the tool process")
    if args.get("outside") is True:
        raise InvalidArguments("outside: a background process runs in the sandbox; leave out background, pty or outside")


def patterns_of(args: Mapping[str, Any]) -> Sequence[str]:
    """Return the patterns among the values of ``notify``."""
    return [text for text in args.get("notify") or () if text != EXIT]
