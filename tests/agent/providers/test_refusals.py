"""Refusals of a server: which of them a retry may fix, and errors without the key."""

from __future__ import annotations

import asyncio

import pytest

from agent.providers import Endpoint, HttpClient
from agent.providers.openai_chat import OpenAIChatSession
from tests.agent.providers.documented import refuse
from toolcrib import AuthFailed, BadRequest, ContextTooLong, Overloaded, ProviderError, RateLimited
from toolcrib.testing import ChatServer, Response


async def _ask(server: ChatServer, key: str = "") -> None:
    endpoint = Endpoint(server.base_url, "m", "K" if key else None)
    session = OpenAIChatSession(HttpClient(endpoint, {"K": key}), model="m", stream=False)
    session.say("hello")
    try:
        await session.stream_turn(lambda event: None)
    finally:
        await session.close()


_TO_COME = "You've reached kimi monthly usage limit for this billing cycle. Your quota will be refreshed in the next cycle."
_GEMINI = "You exceeded your current quota, please check your plan and billing details."


def _gemini(*periods: str, message: str = _GEMINI) -> Response:
    violations = [{"quotaId": f"GenerateRequestsPer{period}PerProjectPerModel-FreeTier"} for period in periods]
    details = [{"violations": violations}, {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}]
    return ChatServer.body(
        [{"error": {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED", "details": details}}], 429
    )


@pytest.mark.parametrize(
    "refusal",
    [
        refuse(_TO_COME, 429, type="access_terminated_error"),
        refuse("Monthly usage limit reached. Resets in 16 days.", 429, type="GoUsageLimitError"),
        refuse("Quota exceeded for quota metric 'Requests' and limit 'Requests per day per user per tier' of service 'x'", 429),
        refuse("You have exceeded your daily quota.", 429),
        refuse("Weekly limit reached", 429),
        refuse("Subscription quota exceeded", 429),
        refuse("Your plan limit has been reached", 429),
        refuse("You've hit your usage limit. Upgrade to Pro.", 429),
        refuse("x", 429, type="usage_limit_reached"),
        refuse("Token quota for this month is used up, retry in 3 days", 429),
        refuse("本月额度已用完", 429),
        refuse("今日调用次数已达上限", 429),
        _gemini("Day"),
        _gemini("Day", "Minute"),
        _gemini("Day", message="Resource has been exhausted (e.g. check quota)."),
        ChatServer.stream({"error": {"code": 429, "message": _TO_COME}}),
    ],
)
def test_a_spent_quota_of_a_longer_period_is_not_asked_again(refusal: Response) -> None:
    with ChatServer(refusal) as server, pytest.raises(RateLimited, match="quota is spent") as caught:
        asyncio.run(_ask(server))
    assert not caught.value.retryable


@pytest.mark.parametrize(
    "refusal",
    [
        refuse("Rate limit exceeded. Upgrade to the annual plan for higher limits.", 429),
        refuse("Rate limit exceeded for your monthly plan: 20 requests per minute", 429),
        refuse("Limit of 60 requests per minute reached; your monthly quota is 10000 requests", 429),
        refuse("Rate limit reached on tokens per day (TPD): Limit 100000, Used 99990. Please try again in 7.66s", 429),
        refuse("Too many requests", 429, type="rate_limit_error"),
        refuse("Concurrency limit exceeded for account, please retry later", 429),
        refuse("Your quota will reset after 27h41m36s", 429),
        refuse("Number of request tokens has exceeded your per-minute rate limit", 429),
        _gemini("Minute"),
    ],
)
def test_a_rate_limit_is_asked_again(refusal: Response) -> None:
    with ChatServer(refusal) as server, pytest.raises(RateLimited) as caught:
        asyncio.run(_ask(server))
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("refusal", "seconds"),
    [
        (refuse("Your quota will reset after 27h41m36s", 429), 99_696),
        (refuse("Slow down. The limit resets in 2 hours, 5 mins", 429), 7500),
        (refuse("Please try again in 1m2.5s.", 429), 62.5),
        (refuse("Retry after 250 ms", 429), 0.25),
        (refuse("Limit reached. Resets in 3 months", 429), None),
        (refuse("The usage limit has been reached", 429, type="usage_limit_reached", resets_in_seconds=9568), 9568),
        (
            ChatServer.stream({"error": {"code": 429, "type": "usage_limit_reached", "message": "x", "resets_in_seconds": 9568}}),
            9568,
        ),
    ],
)
def test_the_time_at_which_a_quota_is_renewed_is_read(refusal: Response, seconds: float | None) -> None:
    with ChatServer(refusal) as server, pytest.raises(RateLimited) as caught:
        asyncio.run(_ask(server))
    assert caught.value.retry_after == seconds


def test_the_error_names_the_parameter() -> None:
    said = refuse("Param Incorrect", 400, param="reasoning_content must be passed back")
    with ChatServer(said) as server, pytest.raises(BadRequest, match="Param Incorrect; param: reasoning_content must be passed"):
        asyncio.run(_ask(server))


@pytest.mark.parametrize(
    ("refusal", "retryable"),
    [
        (refuse("You exceeded", 429, code="insufficient_quota"), False),
        (refuse("Insufficient balance or no resource package. Please recharge.", 429, code="1113"), False),
        (refuse("余额不足或无可用资源包,请充值。", 429, code="1113"), False),
        (refuse("Your credit balance is too low to access the API", 429), False),
        (refuse("Your account is suspended, please check your plan and billing details", 429), False),
        (refuse("You exceeded your token quota, please check your account balance", 429), False),
        (refuse("Your team has used all available credits or reached its monthly spending limit", 429), False),
        (refuse("x", 429, type="exceeded_current_quota_error"), False),
        (ChatServer.stream({"error": {"code": "1113", "message": "Insufficient balance"}}), False),
        (refuse("Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free requests per day", 429), True),
        (
            refuse("Rate limit reached: Limit 30000, Used 20000. Try again in 10s. Visit /account/billing to add a card", 429),
            True,
        ),
        (refuse("Your account reached its maximum of 3 requests a minute, please try again after 1 seconds", 429), True),
    ],
)
def test_an_account_without_money_is_not_asked_again(refusal: Response, retryable: bool) -> None:
    with ChatServer(refusal) as server, pytest.raises(RateLimited) as caught:
        asyncio.run(_ask(server))
    assert caught.value.retryable is retryable


@pytest.mark.parametrize(
    ("key", "refusal", "kind", "shown"),
    [
        ("length", refuse("maximum context length is 8192", code="context_length_exceeded"), ContextTooLong, "context length is"),
        ("sk", refuse("task failed", 500), Overloaded, "task failed"),
        ("context_length_exceeded", refuse("x", code="context_length_exceeded"), ContextTooLong, "(400: x)"),
        ("stream_options", refuse("Unknown: stream_options"), BadRequest, "Unknown: [key]"),
        ("12345678", refuse("Wrong key 12345678", 401), AuthFailed, "Wrong key [key]"),
        ("1234567", refuse("Wrong key 1234567", 401), AuthFailed, "Wrong key 1234567"),
        ("12345678", refuse("x" * 1996 + "12345678", 400), BadRequest, "x[key ..."),
    ],
)
def test_the_key_is_removed_from_errors_after_they_are_classified(
    key: str, refusal: Response, kind: type[ProviderError], shown: str
) -> None:
    """In the first rows the key is also a word of the error. A key of less than 8 characters is no secret and stays."""
    with ChatServer(refusal) as server, pytest.raises(kind) as caught:
        asyncio.run(_ask(server, key))
    assert shown in str(caught.value)
    assert len(key) < 8 or key not in f"{caught.value!r} {caught.value.body}"
