"""Completion for the chat's input: commands and their arguments, files after ``@``, tools, and their required arguments."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from agent.cli.filenames import FileNames
from agent.cli.words import SLASH
from toolcrib.contract.regex import Regex

Offers: TypeAlias = Callable[[], Awaitable[Iterable[tuple[str, str]]]]
"""Returns the words that may follow a command, each with a description."""
_PATHS = ("/image ", "/export ", "/diff ")
_EMPTY: Mapping[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": [], "object": {}}
_NAMED = Regex(r"""(?:^|(?<=[\s(\[{,;"'<]))@(?:"(?P<quoted>[^"\n]*)|(?P<plain>(?:(?:\\.|[^\s\\"'@<>|])(?:\\.|[^\s\\])*)?))$""")
"""The typed beginning of a file name."""
_ESCAPED = Regex(r"\\(.)")


class LineCompleter(Completer):
    """Completes the chat's input. ``definitions`` are the tool definitions for a model, ``words`` the chat's commands with their
    descriptions, ``files`` the files that ``@`` completes, ``offers`` the completions of each command's arguments.
    """

    def __init__(
        self,
        definitions: Sequence[Mapping[str, Any]],
        words: Mapping[str, str] = SLASH,
        files: FileNames | None = None,
        offers: Mapping[str, Offers] | None = None,
    ) -> None:
        self._words = words
        self._tools = {one["function"]["name"]: one["function"] for one in definitions}
        self._files = files
        self._offers = offers or {}

    async def get_completions_async(self, document: Document, complete_event: CompleteEvent) -> AsyncGenerator[Completion, None]:
        """Yield completions. File names are found in a thread: a slow disk must not delay typed keys."""
        word, space, begun = document.text_before_cursor.partition(" ")
        if space and (offer := self._offers.get(word)) is not None:
            for name, about in await offer():
                if name.startswith(begun):
                    yield Completion(name, -len(begun), display_meta=about)
            return
        if word.startswith("/") and not space:  # without a thread: the next key may follow immediately
            for one in self.get_completions(document, complete_event):
                yield one
            return
        find = self.get_completions
        for one in await asyncio.get_running_loop().run_in_executor(None, lambda: list(find(document, complete_event))):
            yield one

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        text = document.text_before_cursor
        if (command := next((one for one in _PATHS if text.startswith(one)), "")) != "":
            path = text.removeprefix(command)
            yield from PathCompleter(expanduser=True).get_completions(Document(path, len(path)), complete_event)
        elif text.startswith("/"):
            yield from (
                Completion(name, -len(text), display_meta=meta) for name, meta in self._words.items() if name.startswith(text)
            )
        elif text.startswith("!"):
            begun = text.lstrip("!").rpartition(" ")[2]
            yield from () if self._files is None else _files(self._files, None, begun)
        else:
            if text.startswith("@"):
                yield from self._calls(text)
            if self._files is not None and (named := _NAMED.search(text)) is not None:
                yield from _files(self._files, named["quoted"], named["plain"])

    def _calls(self, text: str) -> Iterable[Completion]:
        named = text.removeprefix("@tool ") if text.startswith("@tool ") else text[1:]
        name, space, rest = named.partition(" ")
        if not space:
            yield from (Completion(f"{tool} ", -len(name)) for tool in self._tools if tool.startswith(name))
        elif not rest and name in self._tools:
            yield Completion(skeleton(self._tools[name]))


def _files(files: FileNames, quoted: str | None, plain: str | None) -> Iterable[Completion]:
    begun, typed = (quoted, len(quoted) + 1) if quoted is not None else (_ESCAPED.sub(r"\1", plain or ""), len(plain or ""))
    for path in files.matching(begun):
        if quoted is None and not any(char in path for char in " \t\\\"'"):
            yield Completion(path, -typed)
        elif '"' not in path:
            yield Completion(f'"{path}' if path.endswith("/") else f'"{path}"', -typed, display=path)


def skeleton(function: Mapping[str, Any]) -> str:
    """Return the required arguments as JSON to fill in, such as ``{"command": ""}``."""
    parameters = function["parameters"]
    properties = parameters.get("properties", {})
    required = {name: _EMPTY.get(str(properties.get(name, {}).get("type")), "") for name in parameters.get("required", ())}
    return json.dumps(required)
