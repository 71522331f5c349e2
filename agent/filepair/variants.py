"""A task for several models at once: each variant has its own file in memory, and its own session.

    with assemble() as crib:
        outcomes = await run_variants(crib, [ModelChoice("gpt-5"), ModelChoice("qwen3-coder")], "A page with a clock", send)

``send`` gets the messages of agent.filepair.frontend as they happen. The code of a variant is the final content of its file.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from agent.conversation.limits import RunLimits
from agent.conversation.session import Session
from agent.conversation.state import RunResult
from agent.desk.request import SessionRequest
from agent.filepair.frontend import Message, Translator
from agent.filepair.htmltext import find_html
from agent.filepair.state import VariantFile
from agent.model_choice.models import ModelChoice
from agent.process import Crib
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.session import ProviderSession
from tools.dispatch.scope import Asker
from tools.filepair_tool import TOOLSET, offer

_log = logging.getLogger(__name__)

MAX_TOOL_TURNS = 20
"""Maximum number of turns with calls, from the specification (004-6)."""

OpenModel: TypeAlias = Callable[[Session], "ProviderSession | Awaitable[ProviderSession]"]
"""Opens a session's conversation with its model."""
Prompt: TypeAlias = str | Sequence[Mapping[str, Any]]
"""A task as text; or the conversation so far as records ({"role": "user", "text": ...}), with the question as the last record."""
Send: TypeAlias = Callable[[Message], None]

INSTRUCTIONS = (
    "You write one self-contained web page. Create it with create_file, then change it with edit_file. "
    "Do not repeat the code in your answer; end with one short sentence."
)


@dataclass(frozen=True, slots=True)
class VariantResult:
    """Result of a variant. ``code`` is its file's content, or the page in the model's last text; "" if there is none."""

    variant: int
    code: str
    path: str
    run: RunResult


@dataclass(frozen=True, slots=True)
class VariantOutcome:
    """Outcome of a variant: ``result``, or the ``error`` that ended it; ``code`` is its code at the end."""

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
    limits: RunLimits | None = None
    asker: Asker | None = None


@dataclass(eq=False)
class Variant:
    """A variant: a thin wrapper around the agent loop. ``state`` is its file."""

    crib: Crib
    send: Send
    index: int = 0
    settings: VariantSettings = field(default_factory=VariantSettings)

    def __post_init__(self) -> None:
        self.state = VariantFile(*self.settings.start)

    async def run(self, model: ModelChoice | OpenModel, prompt: Prompt) -> VariantResult:
        """Run until the model answers without calls; at most 20 turns with calls, then MaxTurnsReached.

        Raises a RunError, ProviderError or ConfigError. Session and connection are always closed.
        """
        session = await self._open_session()
        translator = Translator(self.send, self.state, variant=self.index, knows=session.names.__contains__)
        try:
            question = await _remember(session, prompt)
            await self._open_model(session, model)
            done = await session.ask(question, limits=self._limits(), emit=translator)
            return self._finalize(done, translator)
        finally:
            translator.close()
            await session.close()

    def _finalize(self, done: RunResult, translator: Translator) -> VariantResult:
        code = self.state.content
        if not code:
            code = find_html(done.text or translator.text)
            if code:
                translator.show_code(code)
        return VariantResult(self.index, code, self.state.path, done)

    async def _open_session(self) -> Session:
        settings = self.settings
        offer(self.crib.registry)
        request = SessionRequest(
            platform=settings.platform, asker=settings.asker, enabled=settings.toolsets, handlers=self.state.handlers()
        )
        return await self.crib.desk.open(request)

    async def _open_model(self, session: Session, model: ModelChoice | OpenModel) -> None:
        if isinstance(model, ModelChoice):
            await session.connect(model, instructions=self.settings.instructions)
            return
        opened = model(session)
        session.link.use(await opened if inspect.isawaitable(opened) else opened)

    def _limits(self) -> RunLimits:
        given = self.settings.limits
        turns = MAX_TOOL_TURNS if given is None else min(given.max_turns, MAX_TOOL_TURNS)
        return replace(given or RunLimits.of(self.crib.config), max_turns=turns, on_max_turns="error")


async def run_variants(
    crib: Crib,
    models: Sequence[ModelChoice | OpenModel],
    prompt: Prompt,
    send: Send,
    *,
    settings: VariantSettings | None = None,
) -> list[VariantOutcome]:
    """Run a variant for each model, side by side, and return the outcomes in the order of ``models``.

    A variant that fails does not end the others. ``send`` is called only from this event loop; a message's ``variant`` is the
    index of its model. Cancelling this function ends all variants.
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
    except Exception as error:  # noqa: BLE001 - a caller's own model: the other variants continue after any error
        _log.exception("variant %d failed", variant.index)
        return VariantOutcome(variant.index, variant.state.content, error=error)
    return VariantOutcome(variant.index, result.code, result)


async def _remember(session: Session, prompt: Prompt) -> str:
    """Return the question, and add earlier messages to the session's records, which the model's conversation begins with.

    Raises ToolcribError if the last record is not the user's.
    """
    if isinstance(prompt, str):
        return prompt
    last = prompt[-1] if prompt else {}
    if last.get("role") != "user" or not isinstance(last.get("text"), str):
        raise ToolcribError('the prompt must end with the request of the user: {"role": "user", "text": "..."}')
    await session.store.sessions.append_many(session.id, [dict(record) for record in prompt[:-1]])
    turn = await session.transcript.unanswered()
    if turn is not None:  # the model gets the records, and each call in them needs a result
        await session.store.sessions.append(session.id, await session.transcript.missing_results(turn))
    await session.refresh()
    return str(last["text"])
