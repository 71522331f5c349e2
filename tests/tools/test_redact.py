"""Secrets are taken out of what a model reads."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import ActivityEvent
from tools.redact import RedactingSink, Redactor, may_be_secret

REPEAT = "a1B2" * 20


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "GITHUB_TOKEN", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "token", "MY_APIKEY"])
def test_variables_that_are_named_like_secrets(name: str) -> None:
    redactor = Redactor.of({name: "hunter2-hunter2", "PATH": "/usr/bin:/bin", "KEYBOARD": "qwertyuiop"})
    assert redactor.text("x hunter2-hunter2 y /usr/bin:/bin qwertyuiop") == f"x [redacted: {name}] y /usr/bin:/bin qwertyuiop"


@pytest.mark.parametrize(
    "key",
    [
        f"sk-{REPEAT}",
        f"sk-ant-{REPEAT}",
        f"ghp_{REPEAT}",
        f"github_pat_{REPEAT}",
        f"glpat-{REPEAT}",
        "AKIA" + "A1B2" * 4,
        f"xoxb-{REPEAT}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{REPEAT}\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_the_forms_of_well_known_keys(key: str) -> None:
    redactor = Redactor()
    assert redactor.touches(f"before {key} after")
    assert redactor.text(f"before {key} after") == "before [redacted: key] after"


@pytest.mark.parametrize("text", ["risk-free-and-otherwise-fine-words", "task-1", "sk-short", "the sk- prefix", "ghp_x"])
def test_innocent_text_stays(text: str) -> None:
    assert Redactor().text(text) == text


def test_short_values_are_left() -> None:
    assert Redactor({"A_TOKEN": "test"}).text("this is a test") == "this is a test"


def test_a_secret_that_contains_another_goes_whole() -> None:
    redactor = Redactor({"A": "secret-one", "B": "secret-one-two"})
    assert redactor.text("secret-one-two") == "[redacted: B]"


def test_structures_with_keys_too() -> None:
    redactor = Redactor({"T": "12345678"})
    assert redactor.data({"a12345678": ["x12345678", 5, None, True]}) == {"a[redacted: T]": ["x[redacted: T]", 5, None, True]}


@given(st.text(min_size=8), st.text(), st.text())
def test_a_known_value_never_leaves_whatever_it_is(secret: str, before: str, after: str) -> None:
    redactor = Redactor({"S": secret})
    text = before + secret + after
    assert redactor.touches(text)
    assert redactor.touches(json.dumps(text, ensure_ascii=False))
    if secret not in "[redacted: S]":
        assert secret not in redactor.text(text).replace("[redacted: S]", "")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DB_PASSWORD", "x"),
        ("PGPASSWORD", "x"),
        ("MYSQL_PWD", "x"),
        ("SMTP_PASS", "x"),
        ("KUBE_TOKEN", "x"),
        ("npm_config__authToken", "x"),
        ("STRIPE_KEY", "x"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
        ("DATABASE_URL", "postgres://u:pw@h/db"),
        ("CACHE", "redis://:p/w@h"),
        ("BLOB", "https://h/x?sv=1&sig=abc"),
        ("DSN", "host=h user=u password=pw"),
        ("ODBC", "Server=h;Uid=u;Pwd=pw"),
    ],
)
def test_a_variable_may_be_a_secret_by_its_name_or_its_value(name: str, value: str) -> None:
    assert may_be_secret(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PWD", "/srv"),
        ("OLDPWD", "/srv"),
        ("PATH", "/usr/bin:/bin"),
        ("TOKENIZERS_PARALLELISM", "false"),
        ("KEYBOARD", "de"),
        ("SSH_AUTH_SOCK", "/tmp/agent"),
        ("DATABASE_URL", "postgres://u@h:5432/db"),
        ("PIP_INDEX_URL", "https://h.example/simple"),
        ("MAKEFLAGS", "-j2 PREFIX=/usr"),
    ],
)
def test_other_variables_are_none(name: str, value: str) -> None:
    assert not may_be_secret(name, value)


def test_what_calls_report_holds_no_secret() -> None:
    told: list[ActivityEvent] = []

    class Kept:
        def emit(self, event: ActivityEvent) -> None:
            told.append(event)

    sink = RedactingSink(Kept(), Redactor({"MY_KEY": "very-secret-value"}))
    sink.emit(ActivityEvent("1", "x", {"text": ["a very-secret-value"]}))
    sink.emit(ActivityEvent("1", "x", patch=[{"op": "add", "path": "/a", "value": "very-secret-value"}]))
    assert told[0] == ActivityEvent("1", "x", {"text": ["a [redacted: MY_KEY]"]})
    assert "very-secret" not in str(told[1])
    assert told[1].is_delta
