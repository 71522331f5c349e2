"""The chat's last row."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from agent.cli.footer import footer


def made(window: int | None = None, processes: Sequence[str] = (), **chat: Any) -> Any:
    session = SimpleNamespace(
        mode=SimpleNamespace(now="default"),
        link=SimpleNamespace(window=window),
        backend=SimpleNamespace(name="local"),
        delegates=SimpleNamespace(at_work=()),
        running_processes=processes,
    )
    return SimpleNamespace(session=session, model="qwen3", beside=(), images=(), **{"cost": None, **chat})


@pytest.mark.parametrize(("window", "said"), [(8_000, "6,667 tokens of context, 83 % · "), (None, "6,667 tokens of context · ")])
def test_the_share_of_the_window_stands_where_it_is_known(window: int | None, said: str) -> None:
    chat = made(window)
    assert said in footer(chat, 6_667, "/help", 100)
    assert "context" not in footer(chat, 0, "/help", 100)


@pytest.mark.parametrize(("estimated", "said"), [(False, " · 0.0125 spent · "), (True, " · ~0.0125 spent · ")])
def test_an_estimated_cost_is_marked(estimated: bool, said: str) -> None:
    assert said in footer(made(cost=0.0125, estimated=estimated), 0, "/help", 100)


@pytest.mark.parametrize(
    ("room", "shown"),
    [
        (70, "qwen3 · 6,667 tokens of context · 0.0125 spent · local · Ctrl-C denies"),
        (69, "qwen3 · 0.0125 spent · local · Ctrl-C denies"),
        (43, "qwen3 · local · Ctrl-C denies"),
        (28, "qwen3 · Ctrl-C denies"),
        (20, "Ctrl-C denies"),
    ],
)
def test_a_narrow_screen_shows_what_keys_do(room: int, shown: str) -> None:
    assert footer(made(cost=0.0125, estimated=False), 6_667, "Ctrl-C denies", room) == shown


@pytest.mark.parametrize(("running", "said"), [(["dev"], " · 1 process · /help"), (["dev", "db"], " · 2 processes · /help")])
def test_background_processes_are_counted(running: Sequence[str], said: str) -> None:
    """003-30"""
    assert footer(made(processes=running), 0, "/help", 100).endswith(said)
    assert "process" not in footer(made(), 0, "/help", 100)
