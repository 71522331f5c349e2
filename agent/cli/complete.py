"""Completion for the chat's line: slash commands, the path of an image, tool names, and the arguments that a tool requires."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from agent.cli.words import SLASH

_FILE = "/image "
_EMPTY: Mapping[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": [], "object": {}}


class LineCompleter(Completer):
    """``definitions`` are those that a model would be shown, ``words`` the chat's own commands and what each is for."""

    def __init__(self, definitions: Sequence[Mapping[str, Any]], words: Mapping[str, str] = SLASH) -> None:
        self._words = words
        self._tools = {one["function"]["name"]: one["function"] for one in definitions}

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        if text.startswith(_FILE):
            path = text.removeprefix(_FILE)
            yield from PathCompleter(expanduser=True).get_completions(Document(path, len(path)), complete_event)
        elif text.startswith("/"):
            yield from (
                Completion(name, -len(text), display_meta=meta) for name, meta in self._words.items() if name.startswith(text)
            )
        elif text.startswith("@"):
            named = text.removeprefix("@tool ") if text.startswith("@tool ") else text[1:]
            name, space, rest = named.partition(" ")
            if not space:
                yield from (Completion(f"{tool} ", -len(name)) for tool in self._tools if tool.startswith(name))
            elif not rest and name in self._tools:
                yield Completion(skeleton(self._tools[name]))


def skeleton(function: Mapping[str, Any]) -> str:
    """``{"command": ""}``: the required arguments, to fill in."""
    parameters = function["parameters"]
    properties = parameters.get("properties", {})
    required = {name: _EMPTY.get(str(properties.get(name, {}).get("type")), "") for name in parameters.get("required", ())}
    return json.dumps(required)
