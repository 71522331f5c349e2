"""A real trial of a model: one tiny request with a tool, as a session would send it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent.model_choice.call_style import choose_calling
from agent.providers.factory import ModelTarget, ProviderOpening, open_session
from agent.providers.rows import PROVIDERS
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ConfigError, ProviderError

if TYPE_CHECKING:
    from agent.providers.factory import Plugins

LIMIT = 120.0
"""Seconds that a model may take: a server may have to load it first."""

_TOOL = {"name": "ready", "description": "Report that you are ready.", "parameters": {"type": "object", "properties": {}}}
_MAX_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class ModelTried:
    """Result of a trial. ``problem`` is "" if the model called the tool, else the fault and its remedy.

    ``text`` is the model's text. ``protocol`` is the text protocol of the request, "" for native calls.
    """

    problem: str
    text: str = ""
    protocol: str = ""
    seconds: float = 0.0


async def try_model(
    target: ModelTarget,
    environ: Mapping[str, str],
    *,
    protocol: str = "",
    stream: bool = True,
    plugins: Plugins | None = None,
    seconds: float = LIMIT,
) -> ModelTried:
    """Ask the target's model to call a tool, and return the result. ``protocol`` is the configured one.

    Raises no error for anything that the server does, and stores nothing.
    """
    began = time.perf_counter()
    spoken = protocol
    try:
        async with asyncio.timeout(seconds):
            chosen = await choose_calling(target, protocol, environ, remembers=False)
            spoken = chosen.protocol
            opening = ProviderOpening(
                tools=[{"type": "function", "function": _TOOL}],
                stream=stream,
                max_tokens=_MAX_TOKENS,
                protocol=chosen.protocol,
                opens_thinking=chosen.opens_thinking,
            )
            session = open_session(chosen.target, opening, environ, plugins=plugins)
            try:
                session.say("Call the tool `ready` now.")
                turn = await session.stream_turn(lambda event: None)
            finally:
                await session.close()
    except TimeoutError:
        return ModelTried(f"no reply within {seconds:g} s; try again after the server has loaded it", protocol=spoken)
    except (ProviderError, ConfigError) as error:
        return ModelTried(str(error), protocol=spoken, seconds=time.perf_counter() - began)
    problem = "" if turn.tool_calls else _uncalled(target, turn.finish, spoken)
    return ModelTried(problem, turn.assistant_text.strip(), spoken, time.perf_counter() - began)


def _uncalled(target: ModelTarget, finish: str, protocol: str) -> str:
    if finish == "length":
        return f"it wrote {_MAX_TOKENS} tokens without a call; try a model that thinks less, or set a lower model.thinking"
    if protocol or (target.provider in PROVIDERS and PROVIDERS[target.provider].lists is False):
        return "it answered without calling the tool; use a model that supports tool calls"
    return "it answered without calling the tool; use a model that supports tool calls, or calls in text: --provider text"
