"""A model server that answers each conversation from its own script, and agents that use it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agent.api import Agent
from agent.config import Config, load_config
from toolcrib.testing import ChatServer, Response

Reply = Response | Callable[[Any], Response]


class TaskServer(ChatServer):
    """A server whose ``scripts`` have the replies of each conversation, by the beginning of its first message; a function gets
    the request.

    ``talks`` keeps the requests by the same key.
    """

    def __init__(self, scripts: Mapping[str, Sequence[Reply]]) -> None:
        super().__init__()
        self.scripts = {key: list(replies) for key, replies in scripts.items()}
        self.talks: dict[str, list[Any]] = {key: [] for key in scripts}
        self._guard = threading.Lock()

    def _posted(self, path: str, headers: dict[str, str], sent: Any) -> Response:
        first = next((str(one["content"]) for one in sent.get("messages", ()) if one["role"] == "user"), "")
        key = next((key for key in self.scripts if first.startswith(key)), None)
        if key is None:
            return self.body({"error": {"message": f"no script begins so: {first!r}"}}, 400)
        with self._guard:
            self.requests.append(sent)
            self.talks[key].append(sent)
            reply = self.scripts[key].pop(0) if self.scripts[key] else None
        if reply is None:
            return self.body({"error": {"message": f"the script of {key!r} is at its end"}}, 400)
        return reply if isinstance(reply, Response) else reply(sent)

    def results(self, key: str) -> list[str]:
        """Return the results in the conversation's last request, in order."""
        return [str(one["content"]) for one in self.talks[key][-1]["messages"] if one["role"] == "tool"]

    def said(self, key: str) -> list[str]:
        """Return the users' messages in the conversation's last request."""
        return [str(one["content"]) for one in self.talks[key][-1]["messages"] if one["role"] == "user"]

    def tools(self, key: str) -> list[str]:
        """Return the tools in the conversation's first request."""
        return [one["function"]["name"] for one in self.talks[key][0].get("tools", ())]


def configured(folder: Path, text: str) -> Config:
    """Return the configuration with that text."""
    file = folder / "config.yaml"
    file.write_text(text)
    return load_config(file)


Start = Callable[..., tuple[Agent, TaskServer]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return ``start({"go": [...], "task": [...]}, config="...")``: a running agent in ``tmp_path``, and its server."""
    with ExitStack() as stack:

        def begin(scripts: Mapping[str, Sequence[Reply]], config: str = "", **options: Any) -> tuple[Agent, TaskServer]:
            server = stack.enter_context(TaskServer(scripts))
            if config:
                options["config"] = configured(tmp_path, config)
            agent = Agent(model="m", base_url=server.base_url, **{"project_dir": tmp_path, **options})
            return stack.enter_context(agent), server

        yield begin


@pytest.fixture
def task_server() -> type[TaskServer]:
    """Return the class: ``with task_server({"go": [...]}) as server: ...``"""
    return TaskServer
