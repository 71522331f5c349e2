"""Refusals of a conversation that is too long, and refusals that only look like one."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from agent.context.window import window_refused
from agent.providers._faults import from_status
from toolcrib import BadRequest, ContextTooLong, ProviderError, RateLimited

TOO_LONG = [
    (400, "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the messages)."),
    (400, "Range of input length should be [1, 98304]"),
    (400, "Total tokens of image and text exceed max message tokens"),
    (400, "Input token count 5000 exceeds limit 4096"),
    (400, "Prompt exceeds max length"),
    (400, "invalid params, context window exceeds limit (2013)"),
    (400, "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"),
    (400, "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 200 `max_new_tokens`"),
    (
        400,
        "'max_tokens' is too large: 32000. This model's maximum context length is 32768 tokens and your request has 100 input",
    ),
    (400, "Request has 290002 tokens, but the limit is 262144"),
    (400, "The conversation has 131,500 tokens; at most 131,072 are supported"),
    (400, "Requested tokens (5012) exceed context window of 4096"),
    (400, "\u8f93\u5165\u957f\u5ea6\u8d85\u8fc7\u4e0a\u4e0b\u6587"),
    (413, "Request body too large for gpt-4o model. Max size: 8000 tokens."),
    (
        413,
        "Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 9000, please reduce it",
    ),
    (429, "Request too large for x on tokens per min (TPM): Limit 30000, Requested 45123. The input tokens must be reduced"),
    (429, "Rate limit reached for x on tokens per minute (TPM): Limit 7000, Used 6148, Requested 7895. Try again in 1m0.3s"),
    (413, "too big"),
    (422, "the request exceeds the available context size"),
    (500, "request (9000 tokens) exceeds the available context size (4096 tokens)"),
    (400, "Invalid 'messages[1].content': string too long. Expected a string with maximum length 10485760, but got 12000000"),
    (400, "Invalid 'input[2].content[0].text': string too long. Expected a string with maximum length 10485760"),
    (400, "Invalid 'input': string too long. Expected a string with maximum length 10485760"),
]
OTHERS = [
    (400, "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for this model"),
    (400, "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000."),
    (400, "`max_tokens` must be less than or equal to `8192`, the maximum value for it is less than the `context_window`"),
    (400, "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"),
    (400, "The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value below 4096."),
    (400, "thinking.budget_tokens: Input should be greater than or equal to 1024"),
    (400, "Invalid 'input[3].call_id': string too long. Expected a string with maximum length 64, but got 70"),
    (400, "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 1290"),
    (400, "Invalid 'metadata.user_id': string too long. Expected a string with maximum length 5120"),
    (400, "messages.3.content.1.image.source.base64: image exceeds 5 MB maximum: 6200000 bytes > 5242880 bytes"),
    (400, "Input file is too large: 33554432 bytes, the limit is 20971520 bytes"),
    (400, "messages: at least one message is required"),
    (413, "Audio file exceeds the maximum size of 26214400 bytes"),
]


def refusal(status: int, message: str) -> ProviderError:
    error = {"message": message, "code": "string_above_max_length" if "string too long" in message else None}
    return from_status(status, json.dumps({"error": error}), {}, server="s")


@pytest.mark.parametrize(("status", "message"), TOO_LONG)
def test_a_conversation_that_is_too_long_is_recognised(status: int, message: str) -> None:
    assert type(refusal(status, message)) is ContextTooLong


@pytest.mark.parametrize(("status", "message"), OTHERS)
def test_other_limits_are_no_overflow(status: int, message: str) -> None:
    """A shorter conversation would not help."""
    error = refusal(status, message)
    assert type(error) is BadRequest
    assert message[:40] in str(error)


@pytest.mark.parametrize("body", ["", "<html><head><title>413 Request Entity Too Large</title></head></html>"])
def test_the_413_of_a_proxy_is_no_overflow(body: str) -> None:
    error = from_status(413, body, {}, server="s")
    assert type(error) is BadRequest
    assert "too large" in str(error)


@pytest.mark.parametrize("status", [401, 402, 403, 429])
def test_a_spent_account_is_no_overflow(status: int) -> None:
    message = "You requested up to 65536 tokens, but the limit of your plan is 1000 tokens"
    assert type(refusal(status, message)) is not ContextTooLong


def test_a_request_within_the_rate_limit_is_no_overflow() -> None:
    message = "Rate limit reached for x on tokens per min (TPM): Limit 30000, Used 29000, Requested 4512. Try again in 7s"
    assert type(refusal(429, message)) is RateLimited


@pytest.mark.parametrize(
    ("message", "window"),
    [
        ("Your request exceeded model token limit: 262144 (requested: 290002)", 262_144),
        ("Input length 290100 exceeds the maximum allowed input length of 200000 tokens", 200_000),
        ("Prompt length is 290000, but maximum is 131072", 131_072),
    ],
)
def test_the_window_is_read_from_the_refusal(message: str, window: int) -> None:
    assert window_refused(ContextTooLong(message), 290_000) == window


# -- reported cases ----------------------------------------------------------------------------------------------------

_GIVEN = re.compile(r"(\d{3}) '(.*)'", re.DOTALL)


def reported() -> list[Any]:
    folder = os.environ.get("TOOLCRIB_CORPORA", "")
    if not (folder and (rows := Path(folder) / "reports" / "models.jsonl").is_file()):
        return [pytest.param({}, marks=pytest.mark.skip("set TOOLCRIB_CORPORA to the folder of recorded cases"))]
    found = map(json.loads, rows.read_text("utf-8").splitlines())
    return [pytest.param(row, id=row["id"]) for row in found if row["kind"] == "overflow"]


@pytest.mark.parametrize("row", reported())
def test_a_reported_refusal(row: dict[str, Any]) -> None:
    """The rows have a status and a message; a row about many servers has none, and TOO_LONG has their messages."""
    given = _GIVEN.search(row["input"])
    if given is not None:
        error = refusal(int(given[1]), given[2])
        assert type(error).__name__ == row["expected"].split(",")[0].split()[0]
    elif "string_above_max_length" in row["input"]:
        told = {"message": "string too long", "code": "string_above_max_length", "param": "tools[0].function.description"}
        assert type(from_status(400, json.dumps({"error": told}), {}, server="s")) is BadRequest
    else:
        assert "other servers' words" in row["input"]
        assert {type(refusal(*one)) for one in TOO_LONG} == {ContextTooLong}
