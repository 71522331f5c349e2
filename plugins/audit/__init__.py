"""Audit: writes each decision, call and session as a line of JSON to a tamper-evident file. README.md lists the fields."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from toolcrib import Answer, Block, ConfigError, RunIdentity, SuspendTicket, ToolCall, ToolCallContext, ToolEntry, ToolResult
from toolcrib import hookimpl as _hookimpl
from toolcrib.contract.paths import with_home

from . import verify
from .chain import Chain

if TYPE_CHECKING:
    from toolcrib.contract.records import AuditEntry

_log = logging.getLogger(__name__)
_ACTS = frozenset({"edit", "execute"})
_KEYS = ("path", "required", "fsync", "results", "max_bytes", "keep_files")
_MOST = 20_000
"""Number of characters kept of arguments, and of a result."""


class Audit:
    """The plugin. Invalid settings raise ConfigError, unless the log is required: then the gate denies calls."""

    def __init__(self) -> None:
        self._chain: Chain | None = None
        self._redact: Callable[[str], str] = str
        self._required = self._results = False
        self._problem = "it was not configured"
        self._is_told = False
        self._lock = threading.Lock()
        self._begun: dict[tuple[str, str], float] = {}

    @_hookimpl
    def configure(self, settings: Mapping[str, str], folder: Path, redact: Callable[[str], str]) -> None:
        self._redact, self._chain, self._is_told = redact, None, False
        self._required = settings.get("required", "false") != "false"  # an unreadable value counts as required
        try:
            self._required, self._results = _truth(settings, "required"), _truth(settings, "results")
            self._chain = _chain_by(settings, folder)
        except ConfigError as error:
            self._problem = str(error)
            if not self._required:
                raise
            _log.error("audit: %s; calls that edit or run something are denied until that is fixed", error)
            self._is_told = True
            return
        self._problem = ""

    @_hookimpl
    def register_command(self, add: Callable[[str, Any], None]) -> None:
        usual = None if self._chain is None else self._chain.path
        configure = partial(verify.configure, usual=usual)
        add("audit", SimpleNamespace(HELP=verify.HELP, configure=configure, run=verify.run))

    # -- hooks ---------------------------------------------------------------------------------------------------

    @_hookimpl(tryfirst=True)
    def tool_gate(self, call: ToolCall, entry: ToolEntry, ctx: ToolCallContext) -> Block | None:
        if not self._required or entry.kind not in _ACTS:
            return None
        if self._write("wanted", ctx.run_identity, **self._of(call)):
            return None
        return Block(f"The audit log is required but can't be written ({self._problem}), so calls that act are denied.")

    @_hookimpl
    def on_answer(self, call: ToolCall, ticket: SuspendTicket, answer: Answer, ctx: ToolCallContext) -> None:
        said = {"action": answer.action, "by": answer.by, "reason": answer.reason or "", "payload": self._text(answer.payload)}
        self._write("answer", ctx.run_identity, call=call.id, tool=call.name, ticket=ticket.id, **said)

    @_hookimpl
    def on_decision(self, decision: AuditEntry) -> None:
        detail = self._text(decision.detail)
        about = {"call": decision.call_id, "tool": decision.tool, "decision": decision.decision, "by": decision.by}
        self._append({"event": "decision", "session": decision.session_id, **about, "detail": detail})

    @_hookimpl
    def pre_tool_call(self, call: ToolCall, ctx: ToolCallContext) -> None:
        if len(self._begun) > 10_000:
            self._begun.clear()
        self._begun[ctx.run_identity.session_id, call.id] = time.monotonic()
        self._write("call", ctx.run_identity, **self._of(call))

    @_hookimpl
    def post_tool_call(self, call: ToolCall, result: ToolResult, ctx: ToolCallContext) -> None:
        begun = self._begun.pop((ctx.run_identity.session_id, call.id), None)
        more: dict[str, Any] = {} if begun is None else {"seconds": round(time.monotonic() - begun, 3)}
        if self._results or not result.is_success:
            more["result"] = self._text(result.data if result.is_success else result.message or result.data)
        about = {"call": call.id, "tool": call.name, "status": str(result.status), "ran": begun is not None}
        self._write("result", ctx.run_identity, **about, **more)

    @_hookimpl
    def on_session_start(self, identity: RunIdentity) -> None:
        self._write("session-start", identity)

    @_hookimpl
    def on_session_end(self, identity: RunIdentity) -> None:
        self._write("session-end", identity)

    @_hookimpl
    def on_run_start(self, identity: RunIdentity) -> None:
        self._write("run-start", identity)

    @_hookimpl
    def on_run_end(self, identity: RunIdentity, stopped: str, error: str) -> None:
        self._write("run-end", identity, stopped=stopped, error=error)

    # -- writing -------------------------------------------------------------------------------------------------

    def _of(self, call: ToolCall) -> dict[str, Any]:
        return {"call": call.id, "tool": call.name, "args": self._text(call.args)}

    def _text(self, value: Any) -> str:
        """Return a value as JSON text without secrets, and of limited length."""
        if not isinstance(value, str):
            value = json.dumps(value, ensure_ascii=False, default=str)
        text = self._redact(value)
        return text if len(text) <= _MOST else f"{text[:_MOST]} [... {len(text) - _MOST} more characters]"

    def _write(self, event: str, identity: RunIdentity, **more: Any) -> bool:
        whose = {"session": identity.session_id, "run": identity.run_id, "platform": identity.platform, "user": identity.user}
        if identity.speaker:
            whose["speaker"] = identity.speaker
        return self._append({"event": event, **whose, **more})

    def _append(self, entry: Mapping[str, Any]) -> bool:
        """Append an entry, and return whether it was written. A failure is logged once, until an entry is written again."""
        if self._chain is None:
            return False
        try:
            with self._lock:
                self._chain.append({"at": round(time.time(), 3), **entry})
        except (OSError, ValueError) as error:
            self._problem = (error.strerror if isinstance(error, OSError) else "") or type(error).__name__
            if not self._is_told:
                self._is_told = True
                follows = "calls that edit or run something are denied" if self._required else "events are lost meanwhile"
                _log.warning("the audit log can't be written: %s; %s", self._problem, follows)
            return False
        if self._is_told:
            _log.warning("the audit log can be written again")
        self._is_told, self._problem = False, ""
        return True


def _chain_by(settings: Mapping[str, str], folder: Path) -> Chain:
    unknown = sorted(set(settings) - set(_KEYS))
    if unknown:
        raise ConfigError(f"plugins.settings.audit: unknown {', '.join(unknown)}; it takes {', '.join(_KEYS)}")
    path = with_home(settings["path"]) if settings.get("path") else folder / "audit.jsonl"
    if not path.is_absolute():
        raise ConfigError(f"plugins.settings.audit.path: expected an absolute path or one from ~, got {settings['path']!r}")
    most, keep = _number(settings, "max_bytes", 50_000_000, 1_000), _number(settings, "keep_files", 0, 0)
    return Chain(path, most=most, keep=keep, sync=_truth(settings, "fsync"))


def _truth(settings: Mapping[str, str], key: str) -> bool:
    value = settings.get(key, "false")
    if value not in ("true", "false"):
        raise ConfigError(f"plugins.settings.audit.{key}: 'true' or 'false', not {value!r}")
    return value == "true"


def _number(settings: Mapping[str, str], key: str, usual: int, least: int) -> int:
    value = settings.get(key, str(usual))
    if not value.isascii() or not value.isdecimal() or int(value) < least:
        raise ConfigError(f"plugins.settings.audit.{key}: a whole number of at least {least}, not {value!r}")
    return int(value)


_audit = Audit()
configure = _audit.configure
register_command = _audit.register_command
tool_gate, on_answer, on_decision = _audit.tool_gate, _audit.on_answer, _audit.on_decision
pre_tool_call, post_tool_call = _audit.pre_tool_call, _audit.post_tool_call
on_session_start, on_session_end = _audit.on_session_start, _audit.on_session_end
on_run_start, on_run_end = _audit.on_run_start, _audit.on_run_end
