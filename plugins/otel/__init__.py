"""OpenTelemetry: spans and metrics of runs, models and tools, named as its conventions for generative AI say. README.md has the
settings.

``pip install 'toolcrib[otel]'``; the libraries are imported when the plugin starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolcrib import ConfigError, RunIdentity, ToolCall, ToolCallContext, ToolResult
from toolcrib import hookimpl as _hookimpl

if TYPE_CHECKING:
    from .tracing import Tracing

_KEYS = ("content", "endpoint")


class Otel:
    """The plugin: passes events to its ``Tracing`` from its start to its stop, and ignores events before and after."""

    def __init__(self) -> None:
        self._settings: Mapping[str, str] = {}
        self._redact: Callable[[str], str] = str
        self._tracing: Tracing | None = None

    @_hookimpl
    def configure(self, settings: Mapping[str, str], folder: Path, redact: Callable[[str], str]) -> None:
        del folder
        if unknown := sorted(set(settings) - set(_KEYS)):
            raise ConfigError(f"plugins.settings.otel: unknown setting {', '.join(unknown)}; known: {', '.join(_KEYS)}")
        if settings.get("content", "false") not in ("true", "false"):
            raise ConfigError(f"plugins.settings.otel.content: expected 'true' or 'false', got {settings['content']!r}")
        if (url := settings.get("endpoint", "")) and not url.startswith(("http://", "https://")):
            raise ConfigError(f"plugins.settings.otel.endpoint: expected an address with http:// or https://, got {url!r}")
        self._settings, self._redact = settings, redact

    @_hookimpl
    def on_start(self) -> None:
        try:
            from .tracing import Tracing
        except ImportError as error:
            raise ConfigError(f"OpenTelemetry is not installed ({error.name}): pip install 'toolcrib[otel]'") from error
        self._tracing = Tracing(
            endpoint=self._settings.get("endpoint", ""),
            content=self._settings.get("content") == "true",
            redact=self._redact,
        )

    @_hookimpl
    async def on_stop(self) -> None:
        tracing, self._tracing = self._tracing, None
        if tracing is not None:
            await tracing.close()

    # -- events --------------------------------------------------------------------------------------------------

    @_hookimpl
    def on_run_start(self, identity: RunIdentity) -> None:
        self._tell("run_started", identity)

    @_hookimpl
    def on_run_end(self, identity: RunIdentity, stopped: str, error: str) -> None:
        self._tell("run_ended", identity, stopped, error)

    @_hookimpl
    def on_session_end(self, identity: RunIdentity) -> None:
        self._tell("session_ended", identity)

    @_hookimpl
    def pre_llm_call(self, identity: RunIdentity, model: str, provider: str) -> None:
        self._tell("chat_started", identity, model, provider)

    @_hookimpl
    def post_llm_call(
        self, identity: RunIdentity, text: str, calls: int, model: str, usage: Mapping[str, int], finish: str
    ) -> None:
        self._tell("chat_ended", identity, model, usage, "tool_calls" if calls else finish, text)

    @_hookimpl
    def on_llm_error(self, identity: RunIdentity, error: str) -> None:
        self._tell("chat_failed", identity, error)

    @_hookimpl
    def pre_tool_call(self, call: ToolCall, ctx: ToolCallContext) -> None:
        self._tell("tool_started", ctx.run_identity, call)

    @_hookimpl
    def post_tool_call(self, call: ToolCall, result: ToolResult, ctx: ToolCallContext) -> None:
        self._tell("tool_ended", ctx.run_identity, call, result)

    def _tell(self, what: str, *given: Any) -> None:
        tracing = self._tracing
        if tracing is not None:
            tracing.guarded(what, *given)


_otel = Otel()
configure, on_start, on_stop = _otel.configure, _otel.on_start, _otel.on_stop
on_run_start, on_run_end, on_session_end = _otel.on_run_start, _otel.on_run_end, _otel.on_session_end
pre_llm_call, post_llm_call, on_llm_error = _otel.pre_llm_call, _otel.post_llm_call, _otel.on_llm_error
pre_tool_call, post_tool_call = _otel.pre_tool_call, _otel.post_tool_call
