"""Buttons as reactions: we add them to our own messages, and a user adds the same one to press a button."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from toolcrib.chat import Button
from toolcrib.platforms import Recent

from .incoming import bare, reaction_of
from .server import MatrixRefused, MatrixServer
from .writing import choices_in, emoji_of, transaction

_REMEMBERED = 5_000
_LAST_SECONDS = 2.0
"""Seconds that pending reactions may still take when the platform stops."""


class MatrixButtons:
    """Reactions of our messages and their choices, cached: after a restart they are read from the server again."""

    def __init__(self, server: MatrixServer) -> None:
        self._server = server
        self._given: Recent[str, dict[str, str]] = Recent(_REMEMBERED)
        """For each message, the ids of our reactions by emoji. If a message is missing here, the server is asked."""
        self._choices: Recent[str, dict[str, str]] = Recent(_REMEMBERED)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def show(self, room: str, message: str, buttons: Sequence[Button], *, is_new: bool) -> None:
        """Start a task that adds the reactions of these buttons and removes others. Sending does not wait for it, so the gateway
        knows the message before a user can press a button.
        """
        wanted = {bare(emoji := emoji_of(one, number)): (emoji, one.choice) for number, one in enumerate(buttons)}
        if is_new:
            self._given[message] = {}
        if wanted:
            known = self._choices.get(message, {})
            self._choices[message] = known | {emoji: choice for emoji, (_, choice) in wanted.items()}
        before = self._tasks.get(message)
        if wanted or before is not None or self._given.get(message) != {}:
            work = self._give(room, message, {key: one[0] for key, one in wanted.items()}, before)
            task = self._tasks[message] = asyncio.get_running_loop().create_task(work)
            task.add_done_callback(lambda done: self._tasks.pop(message) if self._tasks.get(message) is done else None)

    async def close(self) -> None:
        """Wait briefly for pending reactions, then cancel them."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks.values(), timeout=_LAST_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def choice(self, room: str, message: str, emoji: str) -> str:
        """Return the choice that a reaction to a message stands for, or "" for none. Raises as MatrixServer.call does."""
        if message not in self._choices:
            event: Mapping[str, Any] = {}
            with contextlib.suppress(MatrixRefused):
                event = await self._server.event(room, message)
            contents: list[Any] = [event.get("content")] if event.get("sender") == self._server.account else []
            if contents and isinstance(newest := event.get("unsigned", {}).get("m.relations", {}).get("m.replace"), Mapping):
                contents.append((await self._server.clear(room, newest)).get("content", {}).get("m.new_content"))
            self._choices[message] = choices_in(contents)
        return self._choices[message].get(emoji, "")

    async def _give(self, room: str, message: str, wanted: Mapping[str, str], before: asyncio.Task[None] | None) -> None:
        """Wait for the previous change, then add and remove reactions. Retry after rate limits and lost connections. Stop if the
        server refuses for another reason.
        """
        if before is not None:
            await asyncio.wait([before])
        while True:
            try:
                given = self._given.get(message)
                if given is None:
                    given = await self._found(room, message)
                for key in [key for key in given if key not in wanted]:
                    where = ("rooms", room, "redact", given[key], transaction("redact", given[key]))
                    await self._server.call("PUT", *where, body={})
                    del given[key]
                for key, emoji in wanted.items():
                    if key not in given:
                        given[key] = await self._react(room, message, emoji)
                self._given[message] = given
                return
            except MatrixRefused as error:
                if error.retry_after is None:
                    return
                await asyncio.sleep(error.retry_after)
            except (OSError, TimeoutError):
                await asyncio.sleep(5)

    async def _react(self, room: str, message: str, emoji: str) -> str:
        content = {"m.relates_to": {"rel_type": "m.annotation", "event_id": message, "key": emoji}}
        where = ("rooms", room, "send", "m.reaction", transaction("react", message, emoji))
        return str((await self._server.call("PUT", *where, body=content))["event_id"])

    async def _found(self, room: str, message: str) -> dict[str, str]:
        where = ("rooms", room, "relations", message, "m.annotation", "m.reaction")
        found = await self._server.call("GET", *where, version="v1", dir="f", limit=50)  # oldest first: ours are among them
        ours = [event for event in found.get("chunk", ()) if event.get("sender") == self._server.account]
        return {emoji: str(event["event_id"]) for event in ours if (emoji := reaction_of(event)[1])}
