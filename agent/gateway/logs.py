"""The gateway's log: lines with their platform, chat and run, without message texts, secrets and names of users.

A chat is shown as the beginning of a digest of its id, as in the name of its folder; a run as the beginning of its session's id
and its number.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from agent.gateway.failures import logged
from toolcrib.contract.chat import Chat
from toolcrib.contract.private import Private

_OURS = ("toolcrib", "tools", "toolsets", "model_tools", "agent", "plugins")
_GATEWAY = "agent.gateway"
_IDS = ("platform", "chat", "run")
_SHOWN_ID = 12
_FRAMES = 12
_about: ContextVar[Mapping[str, str]] = ContextVar("toolcrib_gateway_about")
"""Ids that the current task's log lines carry."""


def chat_id(key: str) -> str:
    """Return a chat as logs show it."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:_SHOWN_ID]


def run_id(run: str) -> str:
    """Return a run as logs show it."""
    session, _, number = run.rpartition("-")
    return f"{session[:_SHOWN_ID]}-{number}" if session else run[:_SHOWN_ID]


def about(platform: str, chat: str = "", run: str = "") -> dict[str, dict[str, str]]:
    """Return the ids of a log line, as ``extra`` for a logger. ``chat`` is Chat.key."""
    return {"about": _shown(platform, chat, run)}


def work_on(platform: str, chat: str = "", run: str = "") -> None:
    """Add these ids to every log line of the current task, and of tasks that it creates, from now on."""
    _about.set(_shown(platform, chat, run))


def _shown(platform: str, chat: str, run: str) -> dict[str, str]:
    found = {"platform": platform, "chat": chat and chat_id(chat), "run": run and run_id(run)}
    return {name: value for name, value in found.items() if value}


class GatewayLog(logging.Handler):
    """Writes the records of this project's loggers to standard error, with secrets removed by ``redact``.

    ``level``: the lowest level that is written; None for INFO in records of the gateway and WARNING in records of other modules.
    """

    def __init__(self, form: str, redact: Callable[[str], str], level: int | None) -> None:
        super().__init__(logging.INFO if level is None else level)
        self._form = form
        self._redact = redact
        self._others = logging.WARNING if level is None else level

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write a record.

        Records of libraries are dropped, because their URLs may contain tokens. Records from outside the gateway are dropped
        below the level that the class describes for them, because they may contain users' messages.
        """
        if not record.name.split(".")[0].startswith(_OURS):
            return False
        return record.levelno >= self._others or record.name.startswith(_GATEWAY)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        try:
            line = self._json(record) if self._form == "json" else self._text(record)
            print(line, file=sys.stderr, flush=True)  # noqa: T201 - this is the log
        except Exception as error:  # noqa: BLE001 - like the standard library: logging must not end the program
            with contextlib.suppress(OSError, ValueError):  # logging's own handler would print the arguments too
                print(f"{record.name}: a line could not be logged: {type(error).__name__}", file=sys.stderr)  # noqa: T201 - as above

    def _message(self, record: logging.LogRecord) -> str:
        """Return the message of a record; arguments that must not be logged are replaced."""
        given = record.args
        shown: Any = given
        if isinstance(given, tuple):
            shown = tuple(map(_shown_argument, given))
        elif isinstance(given, Mapping):
            shown = {name: _shown_argument(one) for name, one in given.items()}
        return self._redact(str(record.msg) % shown if shown else str(record.msg))

    def _json(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": f"{time.strftime('%FT%T', time.gmtime(record.created))}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._message(record),
            **_ids_of(record),
        }
        if found := _fault(record):
            line |= {"error": found[0], "at": found[1]}
        return json.dumps(line, ensure_ascii=False)

    def _text(self, record: logging.LogRecord) -> str:
        ids = _ids_of(record)
        words = [time.strftime("%F %T", time.localtime(record.created)), record.levelname.lower()]
        words += [ids["platform"]] if "platform" in ids else []
        words += [f"{name}={ids[name]}" for name in ("chat", "run") if name in ids]
        lines = [f"{' '.join(words)}: {' '.join(self._message(record).split())}"]
        if found := _fault(record):
            lines += [f"    {found[0]}", *(f"    at {where}" for where in found[1])]
        return "\n".join(lines)


def _shown_argument(value: object) -> object:
    """Return what the log shows for an argument: errors, chats and private values are replaced."""
    match value:
        case BaseException():
            return logged(value)
        case Chat():
            return f"the chat {chat_id(value.key)}"
        case Private():
            return "(left out here)"
        case _:
            return value


def _ids_of(record: logging.LogRecord) -> dict[str, str]:
    given: Mapping[str, str] = getattr(record, "about", {})
    ids = {**_about.get({}), **given}
    return {name: ids[name] for name in _IDS if name in ids}


def _fault(record: logging.LogRecord) -> tuple[str, list[str]] | None:
    """Return the class and stack of a record's exception, or None. The exception's text may repeat a user's message."""
    if not record.exc_info or record.exc_info[0] is None:
        return None
    frames = traceback.extract_tb(record.exc_info[2])[-_FRAMES:]
    return record.exc_info[0].__name__, [f"{one.filename}:{one.lineno} {one.name}" for one in reversed(frames)]


@contextmanager
def gateway_log(form: str, redact: Callable[[str], str], level: int | None = None) -> Iterator[None]:
    """Log as ``form``, which is ``text`` or ``json``, while a gateway runs; see GatewayLog."""
    root, handler = logging.getLogger(), GatewayLog(form, redact, level)
    before = root.level
    root.addHandler(handler)
    root.setLevel(min(before, handler.level))
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
