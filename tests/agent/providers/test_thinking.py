"""Text models stream from their first reply on, unless their prompt opens a thinking block."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import agent.model_choice.call_style
from agent.api import assemble
from agent.config import config_path
from agent.events import Event, TextDelta
from agent.model_choice.models import ModelChoice
from toolcrib import StreamBroken
from toolcrib.testing import ChatServer

QWEN = """{%- if messages %}<tool_call>{% endif %}{{ '<think>' }}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}{%- endif %}"""
R1 = "{{ tools }}{% if add_generation_prompt %}{{'<\uff5cAssistant\uff5c><think>\\n'}}{% endif %}"
SEED = "{%- if add_generation_prompt %}{{ bos_token }}assistant\n<seed:think>{% endif %}"
MAGISTRAL = "{% if add_generation_prompt %}[THINK]{% endif %}"
KIMI = """{%- if add_generation_prompt %}<|open|>message role="assistant"<|sep|><|open|>think<|sep|>{% endif %}"""
APRIEL = "{%- if add_generation_prompt %}<|begin_assistant|>\nHere are my reasoning steps:\n{% endif %}"
REPLY = "Once upon a time there was a workshop. " * 4


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time limit is for servers that hang; this one answers."""
    monkeypatch.setattr(agent.model_choice.call_style, "SECONDS", 120.0)


def deltas(tmp_path: Path, model: str, props: Any = None) -> list[str]:
    """Return the shown deltas of a new session's first reply, which is cut before its end."""
    config_path().parent.mkdir(parents=True, exist_ok=True)
    config_path().write_text("retry: {attempts: 1}")
    listed = {"object": "list", "data": [{"id": model, "object": "model", "owned_by": "llamacpp"}]}
    shown: list[str] = []

    def watch(event: Event) -> None:
        if isinstance(event, TextDelta):
            shown.append(event.text)

    async def ask(base_url: str) -> None:
        async with assemble(project_dir=tmp_path) as crib:
            session = await crib.open()
            try:
                await session.connect(ModelChoice(model, base_url, provider="text"))
                with pytest.raises(StreamBroken):
                    await session.ask("go", emit=watch)
            finally:
                await session.close()

    with ChatServer(ChatServer.text(REPLY, cut=2000), answers={"/v1/models": listed, "/props": props or {}}) as server:
        asyncio.run(ask(server.base_url))
    return shown


@pytest.mark.parametrize(
    "model",
    ["m", "qwen2.5-coder:7b", "Qwen3-4B-Instruct-2507", "Qwen3-30B-A3B", "gemma-3-27b", "llama-3.1-8b", "qwen3-vl-nonthinking"],
)
def test_the_first_reply_is_shown_as_it_comes(model: str, tmp_path: Path) -> None:
    assert len(deltas(tmp_path, model)) > 5


@pytest.mark.parametrize(
    "model",
    [
        "deepseek-r1:8b",
        "DeepSeek-R1-Distill-Qwen-7B.gguf",
        "org/QwQ-32B",
        "Qwen3-4B-Thinking-2507",
        "Magistral-Small-2509",
        "phi-4-reasoning",
        "kimi-k2-thinking",
        "MiniMax-M2",
        "Ring-1T",
        "Kimi-K3",
        "Apriel-1.6-15b",
    ],
)
def test_a_thinking_models_is_held_back_until_it_is_known_to_be_no_thinking(model: str, tmp_path: Path) -> None:
    assert not deltas(tmp_path, model)


@pytest.mark.parametrize(
    ("template", "opens"),
    [
        (QWEN, False),
        (R1, True),
        (SEED, True),
        (MAGISTRAL, True),
        (KIMI, True),
        (APRIEL, True),
        ("{{ messages }}", False),
        (7, False),
    ],
)
def test_the_servers_template_tells_it_for_any_name(template: Any, opens: bool, tmp_path: Path) -> None:
    assert bool(deltas(tmp_path, "m", {"chat_template": template})) is not opens


def test_another_session_knows_it_from_what_the_server_said_before(tmp_path: Path) -> None:
    for _ in range(2):
        assert not deltas(tmp_path, "m", {"chat_template": R1})
