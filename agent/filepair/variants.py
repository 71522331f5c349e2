"""A task given to several models at once: each variant has a file in memory of its own, and a session of its own.

    with assemble() as crib:
        outcomes = await run_variants(crib, [ModelChoice("gpt-5"), ModelChoice("qwen3-coder")], "A page with a clock", send)

``send`` takes the messages of agent.filepair.frontend as they happen. The code of a variant is what its file holds at the end.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from agent.crib import Crib
from agent.filepair.frontend import Message, Translator
from agent.filepair.htmltext import find_html
from agent.filepair.state import FileState
from agent.loop import Loop, LoopLimits, LoopResult
from agent.models import ModelChoice, open_provider
from agent.session import Session
from toolcrib import ProviderSession, ToolcribError
from tools.dispatch.scope import Asker
from tools.filepair_tool import TOOLSET, offer

_log = logging.getLogger(__name__)

MAX_TOOL_TURNS = 20
"""The specification's number (004-6)."""

OpenModel: TypeAlias = Callable[[Session], "ProviderSession | Awaitable[ProviderSession]"]
"""Opens a session's conversation with its model."""
Prompt: TypeAlias = str | Sequence[Mapping[str, Any]]
"""A task in words; or the conversation so far as records ({"role": "user", "text": ...}), of which the last is the question."""
Send: TypeAlias = Callable[[Message], None]

INSTRUCTIONS = (
    "You write one self-contained web page. Create it with create_file, then change it with edit_file. "
    "Do not repeat the code in your answer; end with one short sentence."
)


@dataclass(frozen=True, slots=True)
class VariantResult:
    """Result of a variant. ``code`` is its file's content, or the page in the model's last text; "" where there is none."""

    variant: int
    code: str
    path: str
    loop: LoopResult


@dataclass(frozen=True, slots=True)
class VariantOutcome:
    """``result``, or the ``error`` that ended it; ``code`` is what there was by then."""

    variant: int
    code: str
    result: VariantResult | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantSettings:
    """Settings that all variants share. ``start`` is the file that they begin with, as (path, content)."""

    instructions: str = INSTRUCTIONS
    platform: str = "api"
    toolsets: Sequence[str] = (TOOLSET,)
    start: tuple[str, str] = ("", "")
    limits: LoopLimits | None = None
    asker: Asker | None = None


@dataclass(eq=False)
class Variant:
    """A variant: a thin wrapper of the loop. ``state`` is its file."""

    crib: Crib
    send: Send
    index: int = 0
    settings: VariantSettings = field(default_factory=VariantSettings)

    def __post_init__(self) -> None:
        self.state = FileState(*self.settings.start)

    async def run(self, model: ModelChoice | OpenModel, prompt: Prompt) -> VariantResult:
        """Until the model answers without calls; at most 20 turns with calls, then MaxTurnsReached.

        Raises LoopError, ProviderError and ConfigError kinds. Session and connection are closed whatever happens.
        """
        session = self._open_session()
        translator = Translator(self.send, self.state, variant=self.index, knows=session.names.__contains__)
        provider: ProviderSession | None = None
        try:
            question = _remember(session, prompt)
            provider = await self._open_model(session, model)
            session.say(question)
            provider.say(question)
            done = await Loop(provider, session, translator, self._limits()).run()
            return self._finalize(done, translator)
        finally:
            translator.close()
            try:
                if provider is not None:
                    await provider.close()
            finally:
                await session.close()

    def _finalize(self, done: LoopResult, translator: Translator) -> VariantResult:
        code = self.state.content
        if not code:
            code = find_html(done.text or translator.text)
            if code:
                translator.show_code(code)
        return VariantResult(self.index, code, self.state.path, done)

    def _open_session(self) -> Session:
        settings = self.settings
        offer(self.crib.registry)
        return self.crib.open_session(
            platform=settings.platform, asker=settings.asker, enabled=settings.toolsets, handlers=self.state.handlers()
        )

    async def _open_model(self, session: Session, model: ModelChoice | OpenModel) -> ProviderSession:
        if isinstance(model, ModelChoice):
            return await open_provider(session, model, instructions=self.settings.instructions)
        opened = model(session)
        return await opened if inspect.isawaitable(opened) else opened

    def _limits(self) -> LoopLimits:
        given = self.settings.limits
        turns = MAX_TOOL_TURNS if given is None else min(given.max_turns, MAX_TOOL_TURNS)
        return replace(given or LoopLimits.of(self.crib.config), max_turns=turns, on_max_turns="error")


async def run_variants(
    crib: Crib,
    models: Sequence[ModelChoice | OpenModel],
    prompt: Prompt,
    send: Send,
    *,
    settings: VariantSettings | None = None,
) -> list[VariantOutcome]:
    """Run a variant for each model, side by side, in the order of ``models``. One that fails does not end the others.

    ``send`` is called from this event loop alone; a message's ``variant`` is the index of its model. Cancelling ends all.
    """
    variants = [Variant(crib, send, place, settings or VariantSettings()) for place in range(len(models))]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_outcome(variant, model, prompt)) for variant, model in zip(variants, models, strict=True)]
    return [task.result() for task in tasks]


async def _outcome(variant: Variant, model: ModelChoice | OpenModel, prompt: Prompt) -> VariantOutcome:
    try:
        result = await variant.run(model, prompt)
    except ToolcribError as error:
        return VariantOutcome(variant.index, variant.state.content, error=error)
    except Exception as error:  # noqa: BLE001 - a caller's own model: whatever it raises, the other variants go on
        _log.exception("variant %d failed", variant.index)
        return VariantOutcome(variant.index, variant.state.content, error=error)
    return VariantOutcome(variant.index, result.code, result)


def _remember(session: Session, prompt: Prompt) -> str:
    """The question; what was said before it goes to the session's records, which a provider begins with.

    Raises ToolcribError where the last record is not the person's.
    """
    if isinstance(prompt, str):
        return prompt
    last = prompt[-1] if prompt else {}
    if last.get("role") != "user" or not isinstance(last.get("text"), str):
        raise ToolcribError('the prompt must end with what the person asks: {"role": "user", "text": "..."}')
    for record in prompt[:-1]:
        session.store.sessions.append(session.identity.session_id, dict(record))
    session.repair()  # it takes in what is recorded now; calls without results get one
    return str(last["text"])
