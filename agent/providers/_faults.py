"""Translates a server's refusal (a status, headers and an error object) into a subclass of ProviderError."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from agent.providers._overflow import is_overflow
from toolcrib.contract.errors import (
    AuthFailed,
    BadRequest,
    ConnectionFailed,
    ContextTooLong,
    Overloaded,
    ProviderError,
    RateLimited,
    StreamBroken,
)
from toolcrib.contract.regex import Regex

MAX_SHOWN = 2000
"""Maximum number of characters of a server's text in an error."""

_SPENT = Regex(
    r"insufficient[_ -](account[_ -])?(quota|balance|credits?|funds?)|not[_ -]enough[_ -](balance|credits?|funds?)"
    r"|(balance|credits?|funds?) ((is|are|(has|have) been) )?(insufficient|too low|not enough|exhausted|depleted|used up|empty)"
    r"|(\bno|out of|used all( available)?) (account )?(balance|credits?|funds?)\b|no resource package|in arrears|arrearage"
    r"|exceeded your current quota, please check your plan|exceeded_current_quota|billing_hard_limit"
    r"|(spending|spend|billing|credit) limit|check your (account )?balance|suspended.{0,60}(plan|billing|balance|payment)"
    r"|余额不足|欠费",
    re.IGNORECASE,
)
"""Matches a vendor's words for an account without money: a later request would be refused too."""
_PERIOD = (
    r"(?:month(?:ly)?|week(?:ly)?|annual|year(?:ly)?|(?:billing )?cycle|billing period|\d+[ -]days?)\b(?! ?(?:plan|sub|tier))"
)
_SPENT_PERIOD = Regex(
    rf"\b{_PERIOD} (?:(?!plan|for|to|with|ha)[\w-]+ ){{0,2}}(?:limit|quota|cap|allowance|budget)"
    rf"|\b(?:limit|quota|cap|allowance|budget)s?\b[^.\n]{{0,80}}\b(?:per|for|in|this|each|your|the|next) {_PERIOD}"
    r"|usage[ _-]?limit[ _-]?(?:has been |was |is )?(?:reached|exceeded|hit|error)"
    r"|(?:reached|exceeded|hit) (?:your|the) usage limit"
    r"|\b(?:subscription|account|plan) (?:usage )?(?:quota|limit) (?:(?:has been|was|is) )?(?:exceeded|reached|exhausted)"
    r"|\b(?:resets?|refresh\w*|renew\w*|again|retry) (?:in|after) (?:about )?\d+ ?(?:days?|weeks?|months?|d)\b"
    r"|(?:本月|当月|每月|月度|本周|每周|周期).{0,12}(?:额度|配额|限额|上限|用量|次数)",
    re.IGNORECASE,
)
"""Matches a used-up quota of a month or the like. The match does not count if the text names a limit of a second or minute."""
_SPENT_DAY = Regex(
    r"\b(?:daily|per[ -]?day|today)\b.{0,60}\b(?:limit|quota|cap|allowance|budget)s?\b"
    r"|\b(?:limit|quota|cap|allowance|budget)s?\b.{0,120}\b(?:daily|per[ -]?day|today)\b"
    r"|(?:今日|今天|当日|每日|每天|单日).{0,12}(?:额度|配额|限额|上限|次数)",
    re.IGNORECASE,
)
"""Matches a used-up quota of a day. The match does not count if the server names a rate limit, or a time to wait: some servers
count the last 24 hours.
"""
_RATE = Regex(r"(?:\b(?:per|a|an|each|every)[ -]|/ ?)(?:sec|min)(?:ond|ute)?\b|\b(?:RPM|TPM|RPS)\b|每分钟|每秒", re.IGNORECASE)
_RATE_LIMIT = Regex(r"\brate[ _-]?limit", re.IGNORECASE)
_ONE = r"(\d+(?:\.\d+)?)\s*(ms|s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?)(?![a-z])"
_AMOUNT = Regex(_ONE, re.IGNORECASE)
_WAIT = Regex(rf"(?:try again|retry(?:ing)?|resets?) (?:in|after) ((?:{_ONE}[\s,]*)+)", re.IGNORECASE)
_WAIT_FIELD = Regex(r'"(?:retryDelay"\s*:\s*"(?=[\d.]+s")|resets_in_seconds"\s*:\s*)(\d+(?:\.\d+)?)')
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


class QuotaSpent(RateLimited):
    """A 429 that a short wait does not fix: the account's quota is used up."""

    retryable = False


class NoReply(ConnectionFailed):
    """No part of a reply arrived within the time limit: a retry would take as long."""

    retryable = False


class EndlessReply(StreamBroken):
    """A reply reached its limit of time or size: a retry would take as long, and show it all again."""

    retryable = False


class OversizedReply(EndlessReply):
    """A reply repeats itself, or exceeds its limit: only its beginning and its end are kept."""


class UnreadableReply(StreamBroken):
    """A reply is in a form that this process does not read: a retry would return the same."""

    retryable = False


def from_status(
    status: int,
    body: str,
    headers: Mapping[str, str] | None = None,
    *,
    server: str = "the server",
    key: str = "",
    clean: Callable[[str], str] = str,
) -> ProviderError:
    """Return the error for a response that is not 2xx.

    ``server`` is the server's name; ``key`` describes the key that was sent, and ``clean`` removes that key from shown texts.
    """
    fields = error_fields(_parsed(body))
    said = _message(fields) or body.strip()
    return _error(status, fields, said, body, headers or {}, server, key, clean)


def from_object(error: Any, *, text: str = "", server: str = "the server") -> ProviderError:
    """Return the error for an error object inside a reply with status 200. ``text`` is the part of the reply that arrived."""
    fields = error_fields(error) or {"message": str(error)}
    status = _status_in(fields)
    body = json.dumps(error, ensure_ascii=False, default=str)
    found = _error(status, fields, _message(fields) or body, body, {}, server, "", str)
    found.text = text
    return found


def error_fields(parsed: Any) -> dict[str, Any]:
    """Return the error object from the shapes that servers wrap it in; {} if there is none."""
    if isinstance(parsed, list) and parsed:
        parsed = parsed[0]
    if not isinstance(parsed, dict):
        return {}
    for name in ("error", "errors", "detail"):
        inner = parsed.get(name)
        if isinstance(inner, dict):
            return inner
        if inner:
            return {**parsed, "message": inner if isinstance(inner, str) else json.dumps(inner, ensure_ascii=False)}
    return parsed


def retry_after(headers: Mapping[str, str], body: str = "", *, now: datetime | None = None) -> float | None:
    """Return the seconds that the server asks to wait, None if it does not ask.

    They are in its headers (seconds, milliseconds, a date), or else in its text.
    """
    named = {name.lower(): value.strip() for name, value in headers.items()}
    if "retry-after-ms" in named and (milliseconds := _number(named["retry-after-ms"])) is not None:
        return milliseconds / 1000
    if "retry-after" in named:
        if (seconds := _number(named["retry-after"])) is not None:
            return seconds
        from email.utils import parsedate_to_datetime  # too slow to import at start-up

        try:
            at = parsedate_to_datetime(named["retry-after"])
        except ValueError:
            at = None
        if at is not None:
            at = at if at.tzinfo else at.replace(tzinfo=UTC)
            return max(0.0, (at - (now or datetime.now(UTC))).total_seconds())
    if found := _WAIT_FIELD.search(body):
        return float(found[1])
    if found := _WAIT.search(body):
        amounts = _AMOUNT.findall(found[1])
        return sum(float(amount) * (_SECONDS.get(unit.lower()) or _SECONDS[unit[0].lower()]) for amount, unit in amounts)
    return None


def _error(
    status: int,
    fields: dict[str, Any],
    said: str,
    body: str,
    headers: Mapping[str, str],
    server: str,
    key: str,
    clean: Callable[[str], str],
) -> ProviderError:
    waits = _WAIT.search(said) is not None or any(name.lower().startswith("retry-after") for name in headers)
    kind, message = _kind(status, fields, said, waits=waits)  # before ``clean``, which could remove a word that matters
    param = fields.get("param")
    if isinstance(param, str) and param and param.lower() not in said.lower():
        said = f"{said}; param: {param}"
    said = clean(said)
    shown = said if len(said) <= MAX_SHOWN else said[:MAX_SHOWN] + " ..."
    told = f"{status}: {shown}" if status else shown
    wait = retry_after(headers, body) if issubclass(kind, (RateLimited, Overloaded)) else None
    if kind is AuthFailed:
        message = message.format(key=key or "no key was sent; name the variable that holds it with --api-key-env NAME")
    generation = fields.get("failed_generation")
    return kind(
        f"{server} {message} ({told})",
        status=status,
        body=clean(body)[:MAX_SHOWN],
        retry_after=wait,
        failed_generation=clean(generation) if isinstance(generation, str) else None,
    )


def _kind(status: int, fields: Mapping[str, Any], said: str, *, waits: bool) -> tuple[type[ProviderError], str]:
    marks = " ".join(str(fields.get(name) or "") for name in ("code", "type", "status", "param"))
    if is_overflow(status, marks, said, structured=bool(fields)):
        return ContextTooLong, "reports that the conversation is too long for the model"
    if status in (0, 429) and _is_spent(f"{marks} {said}", str(fields.get("details") or ""), waits=waits):
        return QuotaSpent, "reports that the account's quota is spent: check its plan and billing"
    if status == 429 or (not status and re.search(r"rate_?limit|quota|RESOURCE_EXHAUSTED", marks, re.IGNORECASE)):
        return RateLimited, "asks for fewer requests"
    if status in (401, 403) or (not status and re.search(r"authentication|invalid_api_key|permission", marks, re.IGNORECASE)):
        return AuthFailed, "refused the key: {key}"
    if status >= 500 or status in (408, 425, 498):
        return Overloaded, "failed with a server error; retrying may help"
    if status == 413:
        return BadRequest, "refused the request: it, or a part of it, is too large for the server or a proxy"
    if status >= 400:
        return BadRequest, "refused the request"
    if re.search(r"overloaded|unavailable|server_error|internal|timeout", marks, re.IGNORECASE):
        return Overloaded, "failed in the middle of a reply"
    if re.search(r"invalid_request|bad_request|invalid_argument", marks, re.IGNORECASE):
        return BadRequest, "refused the request in the middle of a reply"
    return StreamBroken, "interrupted the reply with an error"


def _is_spent(said: str, details: str, *, waits: bool) -> bool:
    """Return whether a quota is used up that a short wait does not renew. ``waits``: the server gave a time to wait."""
    if "PerDay" in details or ("PerMinute" in details and "limit: 0" not in said):
        return "PerDay" in details  # Gemini's message is the same for both
    if _SPENT.search(said):
        return True
    if _RATE.search(said):
        return False
    return bool(_SPENT_PERIOD.search(said) or (not waits and not _RATE_LIMIT.search(said) and _SPENT_DAY.search(said)))


def _status_in(fields: Mapping[str, Any]) -> int:
    for name in ("status_code", "code", "status", "http_status"):
        value = fields.get(name)
        if isinstance(value, str) and value.isdecimal() and len(value) == 3:
            value = int(value)
        if isinstance(value, int) and 400 <= value <= 599:
            return value
    return 0


def _message(fields: Mapping[str, Any]) -> str:
    message = fields.get("message") or fields.get("msg") or ""
    detail = fields.get("metadata")
    raw = detail.get("raw") if isinstance(detail, Mapping) else None  # OpenRouter: the text of the server behind it
    words = message if isinstance(message, str) else json.dumps(message, ensure_ascii=False)
    return f"{words}: {raw}" if isinstance(raw, str) and raw else words


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _parsed(body: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
