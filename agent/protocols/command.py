"""The command protocol: a tool call as one line, ``@tool name {json}`` (001-13, 001-14)."""

from __future__ import annotations

import json
import re
from collections.abc import Collection

from toolcrib.contract.types import ToolCall

_LINE = re.compile(r"@(?P<first>[A-Za-z0-9_][A-Za-z0-9_.-]*)(?:[ \t]+(?P<rest>.*))?", re.DOTALL)
_NAMED = re.compile(r"(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]*)[ \t]*(?P<args>.*)", re.DOTALL)
EXAMPLE = '@terminal {"command": "ls"}'
_HOW = {
    "Extra data": "give one call at a time, with nothing after it",
    "a key is": "give each key once",
    "Invalid control character": "write a line break within a text as \\n, and the arguments as an object",
}
"""Remedies by the beginning of json's message. Pasted text often has such faults."""


def parse_command(line: str, names: Collection[str] = ()) -> ToolCall | None:
    """Return the call in a line, or None if the line is text.

    ``@tool NAME {...}`` calls any name; ``@NAME {...}`` only a tool of ``names``. The line must begin with ``@``: a mention
    inside prose is not a call. An unreadable call is returned as a faulty one.
    """
    match = _LINE.fullmatch(line.strip())
    if match is None:
        return None
    name, text = match["first"], (match["rest"] or "").strip()
    if name == "tool" and "tool" not in names:
        named = _NAMED.fullmatch(text)
        if named is None:
            return _broken("", f"no tool is named; write @tool NAME {{...}}, such as {EXAMPLE}")
        name, text = named["name"], named["args"].strip()
    elif name not in names:
        return None
    return _read(name, text)


def _read(name: str, text: str) -> ToolCall:
    from agent.protocols.repair import once  # loaded late: only calls need its patterns

    try:
        args = json.loads(text, object_pairs_hook=once) if text else {}
    except ValueError as error:
        how = next((how for begin, how in _HOW.items() if str(error).startswith(begin)), "write them as an object")
        return _broken(name, f"its arguments are not JSON: {error}; {how}, such as {EXAMPLE}")
    except RecursionError:
        return _broken(name, "its arguments are nested too deeply")
    if not isinstance(args, dict):
        return _broken(name, f"its arguments must be a JSON object, such as {EXAMPLE}")
    return ToolCall(ToolCall.new_id(), name, args)


def _broken(name: str, fault: str) -> ToolCall:
    return ToolCall(ToolCall.new_id(), name, {}, fault)
