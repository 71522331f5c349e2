"""Secrets are removed from text for a model."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote, quote_plus

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
        f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n{REPEAT}\n-----END PGP PRIVATE KEY BLOCK-----",
        "gsk_" + REPEAT[:52],
        "hf_" + REPEAT[:34],
        "r8_" + REPEAT[:37],
        "ghs_" + REPEAT[:36],
        "gldt-" + REPEAT[:20],
        "npm_" + REPEAT[:36],
        "pypi-AgEIcHlwaS5vcmc" + REPEAT[:60],
        "rubygems_" + "0a1b2c3d" * 6,
        "dckr_pat_" + REPEAT[:27],
        "ASIA" + "A1B2" * 4,
        "AIza" + REPEAT[:35],
        "GOCSPX-" + REPEAT[:28],
        "ya29." + REPEAT,
        "AccountKey=" + "aB3/" * 21 + "aB==",
        "abc8Q~" + REPEAT[:34],
        "dop_v1_" + "0a1b2c3d" * 8,
        "HRKU-" + REPEAT[:60],
        "dapi" + "0a1b2c3d" * 4,
        "hvs." + REPEAT,
        "a1B2c3D4e5F6g7.atlasv1." + REPEAT[:64],
        "dp.st.prd." + REPEAT[:40],
        "tskey-auth-" + REPEAT[:24],
        "pscale_tkn_" + REPEAT[:43],
        "sk_live_" + REPEAT[:24],
        "rk_test_" + REPEAT[:24],
        "whsec_" + REPEAT[:32],
        "sq0atp-" + REPEAT[:22],
        "shpat_" + "0a1b2c3d" * 4,
        "xapp-1-A1B2C3-" + "1234567890-" + REPEAT[:30],
        "hooks.slack.com/services/T00000000/B00000000/" + REPEAT[:24],
        "discord.com/api/webhooks/123456789012345678/" + REPEAT[:68],
        "123456789:AA" + REPEAT[:33],
        "SG." + REPEAT[:22] + "." + REPEAT[:43],
        "0a1b2c3d" * 4 + "-us12",
        "key-" + "0a1b2c3d" * 4,
        "ATATT3" + REPEAT,
        "lin_api_" + REPEAT[:40],
        "figd_" + REPEAT[:40],
        "PMAK-" + "0a1b2c3d" * 3 + "-" + "0a1b2c3d" * 4 + "0a",
        "NRAK-" + "A1B2C3D4E" * 3,
        "glsa_" + REPEAT[:32] + "_0a1b2c3d",
        "sntryu_" + "0a1b2c3d" * 8,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0." + REPEAT[:43],
        "AGE-SECRET-KEY-1" + "Q1W2" * 14 + "E3",
    ],
)
def test_the_forms_of_well_known_keys(key: str) -> None:
    redactor = Redactor()
    assert redactor.touches(f"before {key} after")
    assert redactor.text(f"before {key} after") == "before [redacted: key] after"


@pytest.mark.parametrize(
    "text",
    [
        *("risk-free-and-otherwise-fine-words", "task-1", "sk-short", "the sk- prefix", "ghp_x"),
        *("npm_config_registry", "npm_package_dependencies_left_pad", "monkey-patched", "ssh-key-gen", "de-us-east", "dp.pt"),
        *("0a1b2c3d4e5f60718293a4b5c6d7e8f901234567", "d41d8cd98f00b204e9800998ecf8427e", "eyJ", "sha256:9f86d081884c7d65"),
        *(
            "12:AAPL rose",
            "SG.1",
            "hooks.slack.com/docs",
            "sk_live_",
            "test_hf_model_card",
            "import dapi",
            "PRIVATE KEY handling",
        ),
    ],
)
def test_innocent_text_stays(text: str) -> None:
    assert Redactor().text(text) == text


SECRET = "s3cr3t/va+lue with=signs&more"


@pytest.mark.parametrize("before", ["", "x", "xy", "user:"])
def test_a_known_value_in_base64(before: str) -> None:
    whole = base64.b64encode(f"{before}{SECRET}:rest of it".encode())
    for text in (whole.decode(), whole.decode().replace("+", "-").replace("/", "_"), base64.encodebytes(whole).decode()):
        redactor = Redactor({"T": SECRET})
        decoded = base64.b64decode(text + "==", altchars=b"-_" if "-" in text or "_" in text else None)
        if SECRET.encode() in decoded:
            assert redactor.touches(text)
            assert "[redacted: T]" in redactor.text(text)


@pytest.mark.parametrize(
    "text",
    [
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        " ".join(SECRET.encode().hex()[at : at + 4] for at in range(0, 2 * len(SECRET), 4)),
        quote(SECRET),
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        "\n".join(SECRET[at : at + 5] for at in range(0, len(SECRET), 5)),
        '"' + SECRET[:9] + '" + "' + SECRET[9:] + '"',
        base64.encodebytes(b"a" * 50 + SECRET.encode() + b"b" * 50).decode(),
        " ".join(SECRET),
    ],
)
def test_a_known_value_in_other_forms(text: str) -> None:
    redactor = Redactor({"T": SECRET})
    assert redactor.touches(f"before {text} after")
    shown = redactor.text(f"before {text} after")
    assert "[redacted: T]" in shown
    assert shown.startswith("before ")
    assert shown.endswith(" after")


@given(st.binary(max_size=40), st.text(min_size=8, max_size=40), st.binary(max_size=40))
def test_base64_of_anything_around_a_known_value(before: bytes, secret: str, after: bytes) -> None:
    whole = base64.b64encode(before + secret.encode("utf-8", "surrogatepass") + after).decode()
    assert "[redacted: T]" in Redactor({"T": secret}).text(whole)


def test_a_value_that_grows_in_base64_is_held_back() -> None:
    redactor = Redactor({"T": SECRET})
    whole = f"it is {base64.b64encode(SECRET.encode()).decode()} ."
    shown = {redactor.growing(whole[:end]) for end in range(len(whole) + 1)}
    assert not any(base64.b64encode(SECRET.encode()).decode()[:5] in one for one in shown)


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
