"""Texts for failures: for the operator's log, for the owner, and for other users, who see no address and no setting."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields

from agent.config import BrokenConfig, PlatformConfig
from agent.desk.approvals import OWNER
from agent.gateway.limits import DailyQuotaSpent
from agent.policy.confirmation import UnconfirmedConfig
from toolcrib.contract.chat import NotSent
from toolcrib.contract.errors import (
    BadRequest,
    ContextTooLong,
    Overloaded,
    ProviderError,
    RateLimited,
    StoreFailed,
    StreamBroken,
    ToolcribError,
    ToolError,
)
from toolcrib.contract.passing import is_passing
from toolcrib.contract.regex import Regex
from toolcrib.contract.store import Store

_MOST = 500
_PLACES = 5
_OURS = ("toolcrib", "agent")
_TOLD = (BadRequest, ContextTooLong, Overloaded, StreamBroken, ToolError, NotSent)
"""Errors whose text may come from a tool, a platform's server, or a model server, which may quote the request."""
_CODE = Regex(r"[A-Za-z0-9_.-]{1,40}")
_IN_LOG = "the operator's log has details"
_WRONG = f"Something went wrong here; {_IN_LOG}."


def error_text(error: Exception, *, is_owner: bool) -> str:
    """Return the text that a chat shows for an error."""
    if is_owner:
        return f"⚠ {error}" if isinstance(error, ToolcribError) else f"⚠ {_WRONG}"
    match error:
        case DailyQuotaSpent():
            words = str(error)
        case ContextTooLong():
            words = "This conversation is too long for the model; /new starts another one."
        case RateLimited() | Overloaded():
            words = f"The model server is overloaded. Try again later; {_IN_LOG}."
        case ProviderError():
            words = f"The request to the model server failed; {_IN_LOG}."
        case _:
            words = _WRONG
    return f"⚠ {words}"


def logged(error: BaseException) -> str:
    """Return a line for the log: the error's class, and its text if this project wrote it.

    Texts of servers, plugins and libraries are left out: they may quote a user's message or name the user. The line then has the
    error's status or code, and its cause. For an OSError it has the system's description of the error number. For a configuration
    error it has the file, and the lines of the invalid settings or the number of unconfirmed changes.
    """
    kind = type(error).__name__
    if isinstance(error, (BrokenConfig, UnconfirmedConfig)):
        return f"{kind}: {_where(error)}"
    if isinstance(error, OSError):
        return f"{kind}: {os.strerror(error.errno)}" if isinstance(error.errno, int) and error.errno > 0 else kind
    if isinstance(error, ToolcribError) and _has_our_words(error):
        words = " ".join(str(error).split())
        return f"{kind}: {words if len(words) <= _MOST else f'{words[:_MOST]} ...'}"
    code = str(getattr(error, "status", "") or getattr(error, "code", ""))
    shown = f"{kind} ({code})" if _CODE.fullmatch(code) else kind
    return f"{shown}: {logged(error.__cause__)}" if isinstance(error.__cause__, Exception) else shown


def _where(error: BrokenConfig | UnconfirmedConfig) -> str:
    """Return which lines of a configuration file are invalid, or how many changes of it are unconfirmed.

    Only names of platform settings are shown. Other keys and all values are left out: they may name users and rooms.
    """
    if isinstance(error, UnconfirmedConfig):
        many = len(error.changes)
        return f"{error.path} has {many} unconfirmed change{'s' * (many != 1)}; `toolcrib config confirm` shows them"
    places = [f"{fault.path}:{fault.line}: {_setting(fault.key)}" for fault in error.faults[:_PLACES]]
    return f"{', '.join(places)} invalid; `toolcrib config check` shows why"


def _setting(key: str) -> str:
    """Return "this is", after the name of the platform setting if the key belongs to one.

    The rest of the key is left out: it may contain ids.
    """
    first, _, rest = key.partition(".")
    platform, _, name = rest.partition(".")
    name = name.partition(".")[0].partition("[")[0]
    is_setting = first == "platforms" and name in {one.name for one in fields(PlatformConfig)}
    return f"{first}.{platform}.{name}: this is" if is_setting else "this is"


def _has_our_words(error: ToolcribError) -> bool:
    """Return whether the texts of the error, and of its causes, all come from this project."""
    is_ours = type(error).__module__.partition(".")[0] in _OURS
    is_told = type(error) is ProviderError or isinstance(error, _TOLD)
    cause = error.__cause__
    return is_ours and not is_told and (not isinstance(cause, ToolcribError) or _has_our_words(cause))


@contextmanager
def retried_if_passing() -> Iterator[None]:
    """Turn an error that is a temporary fault of this machine into StoreFailed, after which platforms and the mailbox retry."""
    try:
        yield
    except Exception as error:
        if is_passing(error) and not isinstance(error, StoreFailed):
            raise StoreFailed(f"this machine is short of file descriptors, memory or threads: {logged(error)}") from error
        raise


async def is_owners(store: Store, session_id: str) -> bool:
    """Return whether only the owner reads a session's chat. Raises StoreFailed."""
    record = await store.mail.chat_of(session_id)
    return record is not None and not record.body["chat"]["is_group"] and OWNER in record.body["roles"]
