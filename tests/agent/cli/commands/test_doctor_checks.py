"""Checks of ``toolcrib doctor``: keys, the clock, plugins, and checks that fail or hang."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pexpect
import pytest


def leave(child: pexpect.spawn) -> int:
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus


def found(run: Any, *args: str) -> dict[str, dict[str, Any]]:
    return {one["id"]: one for one in json.loads(run("doctor", "--json", *args).out)}


# -- keys and the clock ------------------------------------------------------------------------------------------------


class _Server(ThreadingHTTPServer):
    """A server that lists models, with its own status, body and clock."""

    def __init__(self, status: int = 200, body: bytes = b'{"data": []}', ahead: float = 0.0, wait: float = 0.0) -> None:
        self.said = status, body, ahead, wait
        self.keys: list[str] = []
        super().__init__(("127.0.0.1", 0), _Lists)
        self.daemon_threads = True
        Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def __exit__(self, *error: object) -> None:
        self.shutdown()
        self.server_close()


class _Lists(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        status, body, ahead, wait = self.server.said
        self.server.keys.append(self.headers.get("Authorization", ""))
        time.sleep(wait)
        self.send_response_only(status)
        self.send_header("Date", formatdate(time.time() + ahead, usegmt=True))
        self.send_header("Content-Length", str(len(body)))
        with contextlib.suppress(OSError):  # the client did not wait for the answer
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Log nothing."""


@pytest.fixture
def with_key(config: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[_Server], None]:
    def write(server: _Server) -> None:
        config(f"model: {{name: m, base_url: 'http://127.0.0.1:{server.server_port}/v1', api_key_env: EXAMPLE_LETMEIN}}\n")
        monkeypatch.setenv("EXAMPLE_LETMEIN", "letmein-please-now")

    return write


@pytest.mark.parametrize(
    ("status", "body", "name", "told"),
    [
        (401, b"{}", "key.refused", "refuses it (401)"),
        (403, b'{"error": "this key has expired"}', "key.refused", "reports it as expired (403)"),
        (400, b'{"error": {"message": "API key not valid."}}', "key.refused", "refuses it (400)"),
        (200, b'{"data": []}', "key.taken", "accepts the key in EXAMPLE_LETMEIN"),
        (500, b"", "key.unchecked", "answers 500"),
    ],
)
def test_a_key_is_tried_and_told_with_where_to_put_another(
    run: Any, with_key: Any, status: int, body: bytes, name: str, told: str
) -> None:
    with _Server(status, body) as server:
        with_key(server)
        done = found(run)
        assert "Bearer letmein-please-now" in server.keys
        asked = len(server.keys)
        assert not {"key.refused", "key.taken", "key.unchecked"} & set(found(run, "--offline"))
        assert len(server.keys) == asked
    assert told in done[name]["text"]
    if name == "key.refused":
        assert done[name]["fix"].endswith("set the variable EXAMPLE_LETMEIN, which overrides secrets.env")
    assert "letmein" not in json.dumps(done)


def test_keys_that_are_missing_or_empty(run: Any, config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    file = config("model: {name: m, base_url: 'http://127.0.0.1:9/v1', api_key_env: EXAMPLE_LETMEIN}\n")
    told = [one for one in json.loads(run("doctor", "--json").out) if one["level"] == "wrong"]
    assert [one["id"] for one in told] == ["key.missing"]
    assert told[0]["fix"].startswith(f"put it into {file.with_name('secrets.env')} (mode 0600) as a line EXAMPLE_LETMEIN=...")
    monkeypatch.setenv("EXAMPLE_LETMEIN", " ")
    assert "EXAMPLE_LETMEIN, which model.api_key_env names, is set but empty" in found(run)["key.empty"]["text"]


@pytest.mark.parametrize(("ahead", "told"), [(7_200.0, "the clock is 2 h behind"), (-600.0, "the clock is 10 min ahead of")])
def test_a_wrong_clock(run: Any, with_key: Any, ahead: float, told: str) -> None:
    with _Server(ahead=ahead) as server:
        with_key(server)
        assert told in found(run)["clock.wrong"]["text"]
    with _Server(ahead=5.0) as server:
        with_key(server)
        assert found(run)["clock.right"]["level"] == "ok"


@pytest.mark.full
def test_a_server_that_does_not_answer_keeps_nobody(run: Any, with_key: Any) -> None:
    with _Server(wait=60.0) as server:
        with_key(server)
        begun = time.monotonic()
        assert "key.unchecked" in found(run)
        assert time.monotonic() - begun < 45.0


def test_a_time_zone_that_can_not_be_loaded(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Europe/Berlin", "CET-1CEST", "WET0WEST,M3.5.0,M10.5.0", "<+03>-3"):
        monkeypatch.setenv("TZ", name)
        assert "clock.zone" not in found(run, "--offline")
    monkeypatch.setenv("TZ", "Europe/Berlim")
    assert "did you mean Europe/Berlin?" in found(run, "--offline")["clock.zone"]["text"]


# -- plugins -----------------------------------------------------------------------------------------------------------

TOOL = """
from toolcrib import tool

@tool(toolset="mine", kind="read")
def greet(who: str) -> str:
    "Greet."
    return who
"""


def test_conflicts_of_plugins(run: Any, user_plugin: Any, config: Any, tmp_path: Path) -> None:
    user_plugin("first", TOOL)
    user_plugin("second", TOOL)
    user_plugin("console", TOOL.replace("greet", "other"))
    config("plugins: {enabled: [first, second, console, gone]}\n")
    told = {(one["id"], one["text"]) for one in json.loads(run("doctor", "--json", "--offline").out) if one["level"] == "wrong"}
    by_id = dict(told)
    assert "plugin 'second' may not replace the tool 'greet'" in by_id["plugin.tool-conflict"]
    assert "plugin console (user): the name is taken by the bundled plugin" in by_id["plugin.name-conflict"]
    assert "there is no such plugin" in by_id["plugin.not-installed"]


def test_a_platform_that_is_set_up_without_its_plugin_is_named(run: Any, config: Any) -> None:
    config("platforms: {telegram: {allowed_users: ['42']}, console: {allowed_users: [me]}}\nplugins: {enabled: [console]}\n")
    one = found(run, "--offline")["plugin.platform-idle"]
    assert one["level"] == "note"
    assert "platforms.telegram is set" in one["text"]
    assert one["fix"] == "toolcrib plugins enable telegram"


def test_an_extra_whose_libraries_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.metadata as metadata

    from agent.cli.plugin_checks import check_extras

    known = metadata.distribution

    def without(name: str) -> metadata.Distribution:
        if name in ("starlette", "uvicorn"):
            raise metadata.PackageNotFoundError(name)
        return known(name)

    assert list(check_extras(("gateway", "nothing"))) == []
    monkeypatch.setattr(metadata, "distribution", without)
    (one,) = check_extras(("gateway",))
    assert (one.id, one.fix) == ("plugin.extra-missing", "pip install 'toolcrib[gateway]'")
    assert "starlette, uvicorn is not installed" in one.text
    assert one.repair is not None
    assert "[gateway]" in one.repair.does
    assert one.repair.loses


# -- a check that fails or hangs ---------------------------------------------------------------------------------------


def test_a_check_that_raises_or_hangs_is_a_finding_and_the_others_go_on(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from agent.cli import guarding, machine_checks

    def broken() -> Iterator[Any]:
        raise RuntimeError("no such disk")
        yield

    def hangs() -> Iterator[Any]:
        try:
            time.sleep(30)
        except Exception:  # noqa: BLE001 - what swallows everything does not go on for ever either
            time.sleep(30)
        yield

    monkeypatch.setattr(machine_checks, "check_disk", broken)
    monkeypatch.setattr(machine_checks, "check_zone", hangs)
    monkeypatch.setattr(guarding.guarded, "__defaults__", (3.0,))
    told = [(one["id"], one["text"]) for one in json.loads(run("doctor", "--json", "--offline").out)]
    assert ("check.failed", "the disk cannot be checked: RuntimeError: no such disk") in told
    assert ("check.overdue", "the time zone: the check was stopped after 3 s") in told
    assert "tools.count" in dict(told)


def test_a_person_at_a_terminal_sees_what_takes_long(terminal: Any, user_plugin: Any, config: Any) -> None:
    user_plugin("slow", "import time; time.sleep(3)\n" + TOOL)
    config("plugins: {enabled: [slow]}\n")
    child = terminal("--offline")
    child.expect(r"checking the configured parts \(\d+ s\)")
    assert leave(child) == 0
