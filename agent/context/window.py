"""The contents of a model's context: an estimate for each part, the server's count, and the size of the window."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from agent.model_choice.models import environment
from agent.providers._history import same_model
from agent.providers.endpoint import Endpoint
from agent.providers.factory import ModelTarget
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.regex import Regex

if TYPE_CHECKING:
    from agent.conversation.core import SessionCore
    from agent.providers.listing import ModelInfo
    from toolcrib.contract.errors import ContextTooLong
    from toolcrib.contract.registry import ToolRegistry

BYTES_A_TOKEN = 4
"""Bytes per token in an estimate: accurate to within about a quarter for English and code."""
IMAGE_TOKENS = 1_000
"""Tokens of an image in an estimate; models differ."""
_LARGEST = 5
_SECONDS = 4.0
_SAYS = Regex(
    r"(?:context (?:length|window|size)(?: is| of)?|number of tokens allowed|n_ctx|token limit|input length of"
    r"|maximum is|less than|limit is|at most|max size)[\s\"':(=]{0,6}(\d[\d,]{2,11})"
    r"|(\d[\d,]{2,11}) maximum",
    re.I,
)
"""Matches the size of the window in tokens, in the error of a server that refuses a conversation as too long."""


@dataclass(slots=True)
class ContextPart:
    """A part of the context. ``tokens`` is an estimate, ``count`` the number of items, ``detail`` their description."""

    name: str
    tokens: int = 0
    count: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class LargeResult:
    """A tool result that takes up much of the context."""

    call_id: str
    name: str
    tokens: int


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """The window of a model in ``tokens``, None if unknown; ``source`` is the origin of the number."""

    tokens: int | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class ContextUse:
    """Use of a context: its estimated parts, the largest results, and the server's count.

    ``counted`` is the server's count at its last reply, including the reply; None without a count. ``since`` is the estimate for
    everything after that reply.
    """

    parts: Sequence[ContextPart]
    largest: Sequence[LargeResult]
    counted: int | None = None
    since: int = 0
    window: ContextWindow = field(default_factory=ContextWindow)

    @property
    def estimated(self) -> int:
        """The estimate for all parts."""
        return sum(part.tokens for part in self.parts)

    @property
    def tokens(self) -> int:
        """The best number: the server's count plus the estimate since, or else the whole estimate."""
        return self.estimated if self.counted is None else self.counted + self.since

    @property
    def is_full(self) -> bool:
        """True if the context is known to be full."""
        return self.window.tokens is not None and self.tokens >= self.window.tokens


def tokens_of(text: str) -> int:
    """Return the estimated number of tokens of a text."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return -(-size // BYTES_A_TOKEN)


def tokens_of_schema(tools: ToolRegistry, name: str) -> int:
    """Return the estimated tokens of a registered tool's schema in each request, even if the tool is unavailable here."""
    entry = tools.get(name)
    shown = tools.get_definitions([name]) or ([] if entry is None else [entry.definition])
    return sum(tokens_of(json.dumps(one, ensure_ascii=False, default=dict)) for one in shown)


def tokens_of_record(record: Mapping[str, Any]) -> int:
    """Return the estimated tokens of a transcript record."""
    return sum(part.tokens for part in _Sums().add(record).parts())


class _Sums:
    def __init__(self) -> None:
        self.opening = ContextPart("summary")
        self.said = ContextPart("your messages")
        self.replies = ContextPart("replies")
        self.calls = ContextPart("calls")
        self.results = ContextPart("tool results")
        self.images = ContextPart("images")
        self.large: list[LargeResult] = []
        self.counted: int | None = None
        self.since = 0

    def parts(self) -> list[ContextPart]:
        return [part for part in (self.opening, self.said, self.replies, self.calls, self.results, self.images) if part.count]

    def add(self, record: Mapping[str, Any]) -> _Sums:
        before = sum(part.tokens for part in self.parts())
        role = record.get("role")
        if role == "results":
            for result in record.get("results") or ():
                tokens = _count(self.results, str(result.get("text", "")))
                self.large.append(LargeResult(str(result.get("call_id", "")), str(result.get("name", "")), tokens))
                self._pictured(result)
        else:
            said = self.opening if record.get("opens") else self.replies if role == "assistant" else self.said
            _count(said, str(record.get("text", "")))
            for call in record.get("calls") or ():
                _count(self.calls, str(call["name"]) + json.dumps(call["args"], ensure_ascii=False, default=str))
            self._pictured(record)
        usage = record.get("usage") or {}
        if usage and not record.get("forked"):
            self.counted, self.since = int(usage.get("input", 0)) + int(usage.get("output", 0)), 0
        elif self.counted is not None:
            self.since += sum(part.tokens for part in self.parts()) - before
        if len(self.large) > 64 * _LARGEST:
            self.large = self.largest()
        return self

    def _pictured(self, holder: Mapping[str, Any]) -> None:
        shown = len(holder.get("images") or ())
        self.images.count += shown
        self.images.tokens += shown * IMAGE_TOKENS

    def largest(self) -> list[LargeResult]:
        return sorted(self.large, key=lambda one: -one.tokens)[:_LARGEST]


def _count(part: ContextPart, text: str) -> int:
    tokens = tokens_of(text)
    part.count += 1
    part.tokens += tokens
    return tokens


async def measure(session: SessionCore, *, asks: bool = False) -> ContextUse:
    """Return what fills the context of the session's model.

    With ``asks`` it may ask the server for the window, which can take a few seconds. Raises StoreFailed.
    """
    from tools.dispatch.threads import in_daemon_thread

    sums = _Sums()
    await in_daemon_thread(lambda: _all(sums, session.transcript.model_records()))
    parts = [*_told_first(session), *sums.parts()] if session.model else sums.parts()
    return ContextUse(parts, sums.largest(), sums.counted, sums.since, await window_of(session, asks=asks))


async def used_now(session: SessionCore) -> ContextUse:
    """Return the use of the context: the server's last count, plus an estimate for the records after it.

    ``parts`` cover only the counted reply and the records after it. Without a count it returns what ``measure`` returns.
    """
    later: list[Mapping[str, Any]] = []
    async for record in session.transcript.backwards():
        if record.get("role") == "compressed":  # no reply with a count follows the compression
            return await measure(session)
        later.append(record)
        if record.get("usage") and not record.get("forked"):
            break
    sums = _Sums()
    _all(sums, reversed(later))
    if sums.counted is None:
        return await measure(session)
    return ContextUse(sums.parts(), (), sums.counted, sums.since, await window_of(session))


def _all(sums: _Sums, records: Iterable[Mapping[str, Any]]) -> None:
    for record in records:
        sums.add(record)


def _told_first(session: SessionCore) -> Sequence[ContextPart]:
    """Return the parts that each request begins with."""
    files = [file for file in session.prompt.surroundings.files if file.size]
    told = -(-sum(file.size for file in files) // BYTES_A_TOKEN)
    prompt = ContextPart("system prompt", max(tokens_of(session.prompt.text(session.link.instructions)) - told, 0), 1)
    named = ContextPart("instruction files", told, len(files), ", ".join(file.path for file in files))
    tools = ContextPart("tool schemas", tokens_of(json.dumps(session.definitions, ensure_ascii=False)), len(session.definitions))
    return [part for part in (prompt, named, tools) if part.count]


# -- the model's window -------------------------------------------------------------------------------------------------


async def reported_window(session: SessionCore, *, asks: bool = False) -> ContextWindow:
    """Return the configured window of the session's model, or the one that its server reported within the last hour.

    If both are unknown, ``asks`` allows asking the server.
    """
    from agent.model_choice.catalog import Cache, ModelServer, ask_servers

    configured = session.config.model.context_window
    if configured is not None:
        return ContextWindow(configured, "model.context_window")
    if not session.via.get("model"):
        return ContextWindow()
    endpoint = Endpoint(str(session.via.get("base_url", "")), str(session.via["model"]), session.via.get("key_env") or None)
    target, cache = ModelTarget(str(session.via["provider"]), endpoint), Cache()
    alone = cache.model(target)
    listed = cache.get(target)
    found = _named([*([alone] if alone is not None else []), *(listed[0] if listed is not None else ())], endpoint.model)
    if found is None and asks:
        offers = await ask_servers([ModelServer("", target)], environment(session.config), seconds=_SECONDS)
        found = _named([model for offer in offers for model in offer.models], endpoint.model)
    return ContextWindow() if found is None else ContextWindow(found, "reported by its server")


async def window_of(session: SessionCore, *, asks: bool = False) -> ContextWindow:
    """Return the window of the session's model: the reported one, the one learned from refusals, or the listed one."""
    known = await reported_window(session, asks=asks)
    if known.tokens is not None:
        return known
    if (learned := session.link.learned.get(session.link.about)) is not None:
        return ContextWindow(learned, "learned from a refusal of its server")
    return await listed_window(session)


async def listed_window(session: SessionCore) -> ContextWindow:
    """Return the window that genai-prices lists for the session's model."""
    from agent.model_choice.list_prices import list_prices

    found = await list_prices(session.via)
    return ContextWindow() if found is None or not found.window else ContextWindow(found.window, f"by {found.source}")


def window_refused(error: ContextTooLong, tokens: int) -> int:
    """Return the model's window, after its server refused a conversation of about ``tokens``.

    It is the number in the error if that is plausible, else a little less than was refused.
    """
    for found in _SAYS.finditer(f"{error} {error.body}"):
        said = int((found[1] or found[2]).replace(",", ""))
        if tokens // 3 <= said <= tokens * 3:
            return said
    return max(tokens * 9 // 10, 1)


def _named(models: Sequence[ModelInfo], name: str) -> int | None:
    return next((one.context for one in models if one.context and same_model(one.name, name)), None)
