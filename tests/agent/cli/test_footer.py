"""The chat's last row."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from agent.cli.footer import footer


@pytest.mark.parametrize(("window", "said"), [(8_000, "6,667 tokens of context, 83 % · "), (None, "6,667 tokens of context · ")])
def test_the_share_of_the_window_stands_where_it_is_known(window: int | None, said: str) -> None:
    session = SimpleNamespace(
        mode=SimpleNamespace(now="default"),
        link=SimpleNamespace(window=window),
        backend=SimpleNamespace(name="local"),
        delegates=SimpleNamespace(at_work=()),
    )
    chat: Any = SimpleNamespace(session=session, model="qwen3", cost=None, beside=(), images=())
    assert said in footer(chat, 6_667, "/help")
    assert "context" not in footer(chat, 0, "/help")
