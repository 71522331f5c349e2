"""Words for what failed: for the operator's log, for the owner, and for everybody else, who is told no address and no setting."""

from __future__ import annotations

from agent.gateway.admission import OWNER
from toolcrib import BadRequest, ContextTooLong, Overloaded, ProviderError, RateLimited, StreamBroken, ToolcribError
from toolcrib._store import Store

_MOST = 500
_IN_LOG = "the operator finds more in the log"
_WRONG = f"Something went wrong here; {_IN_LOG}."


def told(error: Exception, *, is_owner: bool) -> str:
    """Return what a chat is told of an error."""
    if is_owner:
        return f"⚠ {error}" if isinstance(error, ToolcribError) else f"⚠ {_WRONG}"
    match error:
        case ContextTooLong():
            words = "This conversation is longer than the model takes; /new begins another one."
        case RateLimited() | Overloaded():
            words = f"The model has too much to do just now. Try again later; {_IN_LOG}."
        case ProviderError():
            words = f"The model can't be reached just now; {_IN_LOG}."
        case _:
            words = _WRONG
    return f"⚠ {words}"


def logged(error: Exception) -> str:
    """Return a line for the log: the error's class and its words, without those that may repeat what was said in the chat."""
    kind = type(error).__name__
    if isinstance(error, (BadRequest, StreamBroken)):  # the server's words about the conversation
        return f"{kind} ({error.status})" if error.status else kind
    if not isinstance(error, ToolcribError):
        return kind
    words = " ".join(str(error).split())
    return f"{kind}: {words if len(words) <= _MOST else f'{words[:_MOST]} ...'}"


async def is_owners(store: Store, session_id: str) -> bool:
    """Return whether a session's chat is read by its owner alone. Raises StoreFailed."""
    record = await store.mail.chat_of(session_id)
    return record is not None and not record.body["chat"]["is_group"] and OWNER in record.body["roles"]
