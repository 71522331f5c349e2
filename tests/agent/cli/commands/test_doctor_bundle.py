"""``toolcrib doctor --bundle``: the bundle holds no secrets and no personal data, wherever they were stored."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.config import state_dir
from toolcrib.testing import ChatServer
from tools.redact import without_forms

BASE64 = "MIIEowIBAAKCAQEAtB7n8x/0q+5c0Jm7wZ3mHk0u9yqk2r8Zq1Vt4fYx3r5Lk0bQ"
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{BASE64}\n-----END RSA PRIVATE KEY-----"
SECRETS = {
    # location -> secret planted there; neither the secret nor a part listed in TELLING may be in the bundle
    "variable": "envsecret-plain-words",
    "variable, short": "hunter7",
    "variable, URL": "postgresql://dbuser:dbpassw0rd@db.internal.example/app",
    "variable that the configuration names": "letmein-please-now",
    "secrets.env": "filesecret-plain-words",
    "secrets.env, quoted": "quoted secret of ours",
    "secrets.env, short": "p4ss",
    "platform's setting": "settingsecret",
    "plugin's setting": "plugin-setting-secret",
    "docker's variable": "dockersecret",
    "vendor's key": "sk-proj-abcdefghijklmnopqrstuvwxyz012345",
    "GitHub's token": "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "AWS' key": "AKIAIOSFODNN7EXAMPLE",
    "Slack's token": "xoxb-123456789012-abcdefghijkl",
    "Telegram's token": "7654321098:AAF3xyzABCDEFGHIJKLMNOPQRSTUVWXYZab",
    "JSON web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.sflKxwRJSMeKKF2QT4",
    "hexadecimal key": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    "UUID": "123e4567-e89b-12d3-a456-426614174000",
    "webhook": "https://hooks.example.com/services/T00/B00/AbCdEfGhIjKlMnOpQrStUvWx",
    "password in a URL": "https://ann:opensesame@git.example.com/x.git",
    "odd password in a URL": "https://bob:op/en@se?same@git.example.com/x",
    "query": "https://api.example.com/v1?api_key=queried77&x=1",
    "header": "Authorization: Basic YW5uOnNlc2FtZQ==",
    "header of a key": "x-api-key: headerkey99",
    "option": "curl --password commandlined -u x",
    "assignment": "MY_PASSWORD='assigned one' make",
    "JSON": '{"client_secret": "jsonned", "a": 1}',
    "JSON in JSON": '{"a": "{\\"token\\": \\"nested8\\"}"}',
    "YAML": "smtp_password: yamled11",
    "key file": PEM,
    "rest of a key file": f"\n{BASE64}\n",
}
TELLING = [
    "envsecret", "letmein",
    "hunter7", "dbpassw0rd", "dbuser", "filesecret", "quoted secret", "p4ss", "settingsecret", "plugin-setting",
    "dockersecret", "abcdefghijklmnop", "IOSFODNN7", "123456789012", "7654321098", "AAF3xyz", "eyJ", "sflKxw", "9f86d081",
    "123e4567", "AbCdEfGh", "opensesame", "op/en", "se?same", "queried77", "YW5u", "headerkey99", "commandlined",
    "assigned one", "jsonned", "nested8", "yamled11", "MIIE", "5Lk0bQ", "0q+5c0J",
]  # fmt: skip
PEOPLE = [
    "ann.person", "918273645", "telegram:918273645", "@eve:chat.example", "-1009988776655", "Moderators", "bert.example",
    "build.internal.example", "203.0.113.77", "2001:db8::77", "carl@firm.example", "/srv/for-customer-smith",
    "rm -r the-customers-folder",
]  # fmt: skip

CONFIG = """
model: {name: m, base_url: 'http://bert.example:8080/v1', api_key_env: EXAMPLE_LETMEIN}
platforms:
  telegram:
    allowed_users: ['918273645', ann.person]
    allowed_chats: ['-1009988776655']
    roles: {owner: ['@eve:chat.example'], helpers: ['role:Moderators']}
    folders: {'-1009988776655': /srv/for-customer-smith}
    messages_to: ['@eve:chat.example']
    settings: {server: 'https://ann:opensesame@git.example.com/x', word: settingsecret}
users:
  'telegram:918273645': {disabled_tools: [terminal]}
plugins: {enabled: [mine], settings: {mine: {api_key: plugin-setting-secret}}}
environments:
  docker: {image: x, env: {A: dockersecret}}
  ssh: {host: build.internal.example, user: ann.person}
command_allowlist: ['rm -r the-customers-folder']
approval: {tools: [{tool: terminal, decision: ask, why: 'ann.person wants customer-smith'}]}
profiles:
  work: {users: {'918273645': {disabled_tools: [patch]}}, model: {base_url: 'http://build.internal.example/v1'}}
"""
PLUGIN = """
import logging
from pathlib import Path
from toolcrib import hookimpl
_log = logging.getLogger("toolcrib_plugin_user_mine")

@hookimpl
def configure(settings):
    pass

@hookimpl
def register_tools(registry):
    _log.warning("%s", Path("all.log").read_text())
    raise RuntimeError(Path("all.log").read_text())
"""


@pytest.fixture
def planted(config: Callable[[str], Path], user_plugin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Plant secrets and personal data everywhere, and return a log that holds all of them."""
    file = config(CONFIG)
    secrets = file.with_name("secrets.env")
    secrets.write_text(
        f'A_KEY={SECRETS["secrets.env"]}\nexport B="{SECRETS["secrets.env, quoted"]}"\nC={SECRETS["secrets.env, short"]}\n'
    )
    secrets.chmod(0o600)
    monkeypatch.setenv("EXAMPLE_PASSWORD", SECRETS["variable"])
    monkeypatch.setenv("EXAMPLE_LETMEIN", SECRETS["variable that the configuration names"])
    monkeypatch.setenv("DB_PASS", SECRETS["variable, short"])
    monkeypatch.setenv("DATABASE", SECRETS["variable, URL"])
    log = tmp_path / "all.log"
    log.write_text("".join(f"2026-11-27 12:00:00 info: {where}: it said {what}\n" for where, what in SECRETS.items()))
    with log.open("a") as more:
        more.write("".join(f"message of {one} came\n" for one in PEOPLE))
        more.write(f"{Path.home()}/notes and {state_dir()}\n")
    user_plugin("mine", PLUGIN)
    config(CONFIG)
    return log


def members(path: Path) -> dict[str, str]:
    with tarfile.open(path) as tar:
        files = {Path(one.name).name: tar.extractfile(one) for one in tar.getmembers()}
        return {name: file.read().decode() for name, file in files.items() if file is not None}


def left(text: str) -> list[str]:
    return [one for one in [*TELLING, *PEOPLE, "customer-smith", str(Path.home())] if one in text]


def test_no_secret_and_nobody_is_in_it(run: Any, planted: Path, tmp_path: Path) -> None:
    assert all(any(one in text for text in SECRETS.values()) for one in TELLING)
    done = run("doctor", "--offline", "--bundle", "b.tar.gz", "--log", str(planted))
    assert (done.code, done.err) == (0, "")
    file = tmp_path / "b.tar.gz"
    assert file.stat().st_mode & 0o777 == 0o600
    found = members(file)
    assert {"about.json", "config.json", "doctor.log", "findings.json", "log-1.txt", "plugins.json", "store.json"} <= set(found)
    assert {name: left(text) for name, text in found.items() if left(text)} == {}
    assert left(io.BytesIO(file.read_bytes()).getvalue().decode("latin-1")) == []
    assert all(name in done.out for name in found)
    config = json.loads(found["config.json"])
    assert config["model.name"] == "m"
    assert config["plugins.enabled"] == ["mine"]
    people = config["platforms.telegram.allowed_users"]
    assert len(set(people)) == 2
    assert all(one.startswith("person-") for one in people)
    assert f"message of {people[0]} came" in found["log-1.txt"]
    told = {one["id"]: one for one in json.loads(found["findings.json"])}
    assert told["plugin.failed"]["level"] == "wrong"
    assert "warning toolcrib_plugin_user_mine" in found["doctor.log"]
    assert {"name": "mine", "source": "user"}.items() <= next(
        one for one in json.loads(found["plugins.json"]) if one["name"] == "mine"
    ).items()


def test_what_others_may_read_is_taken_out_too(run: Any, planted: Path, config: Any, tmp_path: Path) -> None:
    """The secrets in an unusable secrets file or configuration are still removed."""
    file = config("toolz: {}\n")
    file.with_name("secrets.env").chmod(0o644)
    assert run("doctor", "--offline", "--bundle", "b.tar.gz", "--log", str(planted)).code == 0
    text = "".join(members(tmp_path / "b.tar.gz").values())
    assert [one for one in ("filesecret", "quoted secret", "p4ss", "hunter7", "opensesame") if one in text] == []
    assert "config.json" not in members(tmp_path / "b.tar.gz")


def test_numbers_of_the_store_and_no_texts(run: Any, tmp_path: Path) -> None:
    with ChatServer(ChatServer.text("the answer is a bluebird")) as server:
        assert run("run", "say something of birds", "--model", "m", "--base-url", server.base_url).code == 0
    assert run("doctor", "--offline", "--bundle", "b.tar.gz").code == 0
    found = members(tmp_path / "b.tar.gz")
    store = json.loads(found["store.json"])
    assert (store["kind"], store["rows"]["sessions"], store["rows"]["messages"]) == ("sqlite", 1, 2)
    assert store["schema"] > 10
    assert "bird" not in "".join(found.values())


def test_a_damaged_store_is_said_and_the_rest_is_there(run: Any, tmp_path: Path) -> None:
    with ChatServer(ChatServer.text("done")) as server:
        run("run", "write it", "--model", "m", "--base-url", server.base_url)
    os.truncate(state_dir() / "toolcrib.db", 5000)
    assert run("doctor", "--offline", "--bundle", "b.tar.gz").code == 0
    found = members(tmp_path / "b.tar.gz")
    assert "StoreDamaged: ~/.local/state/toolcrib/toolcrib.db is damaged" in json.loads(found["store.json"])["missing"]
    assert "store.damaged" in found["findings.json"]


def test_half_a_secret_at_the_ends_of_a_log(run: Any, tmp_path: Path) -> None:
    """The log is cut within a line at its start, and its last line is incomplete."""
    first = "x" * 1000 + " sk-proj-abcdefghijklmnopqrstuvwxyz first-half\n"
    lines = [f"line {number} {'of words ' * 200}\n" for number in range(150)]
    body = "".join(lines)
    log = tmp_path / "long.log"
    log.write_text(first + body[: 256 * 1024 - 20 - len("first-half\n")] + "\nlast sk-proj-ab")
    assert log.stat().st_size > 256 * 1024
    assert run("doctor", "--offline", "--bundle", "b.tar.gz", "--log", str(log)).code == 0
    text = members(tmp_path / "b.tar.gz")["log-1.txt"]
    assert "line 5 of words" in text
    assert text.endswith("\n(an incomplete line)\n")
    assert "-half" not in text
    assert "sk-" not in text


def test_it_overwrites_nothing(run: Any, tmp_path: Path) -> None:
    (tmp_path / "there").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("there", "link"):
        done = run("doctor", "--offline", "--bundle", name)
        assert done.code == 2
        assert "already exists" in done.err
    assert (tmp_path / "there").read_text() == "mine"
    assert not (tmp_path / "elsewhere").exists()
    assert "is not a folder" in run("doctor", "--bundle", "nowhere/x.tar.gz").err
    assert "cannot be read" in run("doctor", "--offline", "--bundle", "x.tar.gz", "--log", "nothing.log").err
    assert not (tmp_path / "x.tar.gz").exists()
    assert "takes neither" in run("doctor", "--bundle", "x.tar.gz", "--fix").err
    assert "--log needs --bundle" in run("doctor", "--log", "x").err


@pytest.mark.parametrize(
    "text", ["a plain sentence about keys and passwords", "version 3.11.7 of /usr/lib/python3", "12:30:45 done"]
)
def test_plain_words_stay(text: str) -> None:
    assert without_forms(text) == text
