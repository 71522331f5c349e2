"""``toolcrib gateway`` as a process, over signed webhooks: shutdown, reload of the configuration, metrics and log."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pexpect
import pytest

from agent.cli import main
from plugins.webhook.signing import HEADER, signature
from tests.forks import Forks
from tests.fuzz.kill_town import Answers, serving
from tests.infra.served import NO_TLS, free_port, listens

pytest.importorskip("uvicorn")
pytestmark = [pytest.mark.full, pytest.mark.defaults]  # `said` runs as the processes do
PATIENCE = 60.0
SECRET = "a secret between us"
_CODE = "import sys; from agent.cli import main; sys.exit(main(sys.argv[1:]))"


class Bureau:
    """A model that waits on request, a service that shows messages, and gateways between the two."""

    def __init__(self, folder: Path, forks: Forks, model: int, receiver: int) -> None:
        self.folder = folder
        self._forks = forks
        self.shown: dict[str, dict[str, Any]] = {}
        """The messages that users see, by key: the service shows a key once."""
        self.may = threading.Event()
        self.asked: list[str] = []
        self.command = ""
        """The command that the model runs before it answers."""
        self.port, self.watch = free_port(), free_port()
        self.model = f"{{provider: chat, base_url: 'http://127.0.0.1:{model}/v1', name: toy}}"
        self._receiver = receiver
        self._processes: list[Any] = []
        self.configure()

    def configure(self, more: str = "", allowed: str = "ann", enabled: str = "webhook", roles: str = "") -> None:
        text = f"""
model: {self.model or "{}"}
plugins: {{enabled: [{enabled}]}}
sandbox: {{mode: none}}
snapshots: {{enabled: false}}
platforms:
  webhook:
    allowed_users: [{allowed}]
    roles: {{{roles}}}
    settings: {{url: 'http://127.0.0.1:{self._receiver}/', port: '{self.port}', edit_seconds: '0.05'}}
  console:
    settings: {{socket: '{self.folder / "socket" / "gateway"}'}}
{more}
"""
        (self.folder / "config.yaml").write_text(text)

    def start(self, *words: str) -> Any:
        """Start a gateway, and return its process once its webhook listens."""
        with (self.folder / "log").open("a") as log:
            options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            process = self._forks.popen("gateway", "run", *words, cwd=self.folder, **options)
        self._processes.append(process)
        self.until(lambda: process.poll() is not None or listens(self.port))
        assert process.poll() is None, self.log()
        return process

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run another command of toolcrib."""
        return self._forks.run(*words, cwd=self.folder, timeout=PATIENCE)

    def texts(self) -> list[str]:
        """Return the texts that users see."""
        return [one["text"] for one in list(self.shown.values())]

    @staticmethod
    def said(*words: str) -> str:
        """Return the output of another command, which runs in this process: tests repeat it until something holds."""
        output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        with contextlib.redirect_stdout(output):
            main([*words])
        output.seek(0)
        return output.read()

    def status(self) -> Any:
        """Return the webhook platform's entry in `gateway status --json`."""
        return json.loads(self.said("gateway", "status", "webhook", "--json"))["platforms"][0]

    def says(self, text: str, *, user: str = "ann", number: str = "") -> Any:
        """Send a user's message, and return the gateway's response."""
        body = json.dumps({"chat": user, "user": user, "message_id": number or text, "text": text}).encode()
        url = f"http://127.0.0.1:{self.port}/v1/messages"
        return httpx.post(url, content=body, headers={HEADER: signature(SECRET, body)}, timeout=PATIENCE, verify=NO_TLS).json()

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def until(self, holds: Callable[[], Any]) -> Any:
        ends = time.monotonic() + PATIENCE
        while not (found := holds()):
            assert time.monotonic() < ends, self.log()
            time.sleep(0.02)
        return found

    def close(self) -> None:
        self.may.set()
        for process in self._processes:
            process.kill()
            process.wait()


def _model_of(bureau: Callable[[], Bureau]) -> type[BaseHTTPRequestHandler]:
    class Model(Answers, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            messages = self.body()["messages"]
            said = str([one["content"] for one in messages if one["role"] == "user"][-1])
            bureau().asked.append(said)
            if "wait" in said:
                bureau().may.wait(PATIENCE)
            delta: Any = {"content": f"re {said}"}
            if is_command := bool(bureau().command) and messages[-1]["role"] == "user":
                call = {"name": "terminal", "arguments": json.dumps({"command": bureau().command})}
                delta = {"tool_calls": [{"index": 0, "id": "call-1", "type": "function", "function": call}]}
            events: list[Any] = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}]
            end = "tool_calls" if is_command else "stop"
            events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": end}]})
            text = "".join(f"data: {json.dumps(one)}\n\n" for one in events) + "data: [DONE]\n\n"
            self.reply(text.encode(), "text/event-stream")

        def do_GET(self) -> None:
            self.reply({"data": [{"id": "toy"}]})

    return Model


def _receiver_of(bureau: Callable[[], Bureau]) -> type[BaseHTTPRequestHandler]:
    class Receiver(Answers, BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = self.body()
            key = str(message["edits"] or message["key"])
            bureau().shown[key] = message
            self.reply({"id": key})

    return Receiver


@pytest.fixture
def bureau(tmp_path: Path, forks: Forks, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bureau]:
    monkeypatch.setenv("TOOLCRIB_CONFIG", str(tmp_path / "config.yaml"))
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("WEBHOOK_SECRET", SECRET)
    monkeypatch.chdir(tmp_path)
    with serving(_model_of(lambda: made)) as model, serving(_receiver_of(lambda: made)) as receiver:
        made = Bureau(tmp_path, forks, model, receiver)
        yield made
        made.close()


def test_a_signal_lets_runs_end_and_their_answers_be_shown(bureau: Bureau) -> None:
    process = bureau.start()
    assert bureau.says("wait here") == {"state": "kept"}
    bureau.until(lambda: bureau.asked)
    process.send_signal(signal.SIGTERM)
    bureau.until(lambda: bureau.status()["state"] == "draining")
    bureau.may.set()
    assert process.wait(PATIENCE) == 0
    assert bureau.texts() == ["re wait here"]
    assert bureau.status()["state"] == "stopped"


def test_a_second_signal_ends_at_once_and_the_next_start_goes_on(bureau: Bureau) -> None:
    process = bureau.start()
    bureau.says("wait here")
    bureau.until(lambda: bureau.asked)
    process.send_signal(signal.SIGINT)
    bureau.until(lambda: bureau.status()["state"] == "draining")
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0
    assert bureau.shown == {}
    bureau.may.set()
    bureau.start()
    bureau.until(lambda: bureau.texts() == ["re wait here"])


@pytest.mark.parametrize("words", [(), ("--now",)])
def test_another_process_ends_it(bureau: Bureau, words: tuple[str, ...]) -> None:
    process = bureau.start()
    assert bureau.run("gateway", "stop", *words).returncode == 0
    assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize("is_asked_twice", [True, False])
def test_a_command_that_runs_ends_with_the_gateway_and_its_run_goes_on(bureau: Bureau, is_asked_twice: bool) -> None:
    mark, number = bureau.folder / "begun", f"1234.{time.time_ns()}"  # unique: the other case may run at the same time
    bureau.command = f"touch {mark}; sleep {number}; echo never"
    bureau.configure(roles="owner: [ann]", more="" if is_asked_twice else "gateway: {drain_seconds: 0.2}")
    process = bureau.start()
    bureau.says("sleep")
    bureau.until(mark.exists)
    process.send_signal(signal.SIGTERM)
    if is_asked_twice:
        bureau.until(lambda: bureau.status()["state"] == "draining")
        process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    assert not [one for one in Path("/proc").glob("[0-9]*/cmdline") if f"sleep\0{number}".encode() in _read(one)]
    bureau.command = ""
    bureau.start()
    bureau.until(lambda: "re sleep" in bureau.texts())


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def test_a_closed_terminal_ends_it_as_a_signal_does(bureau: Bureau) -> None:
    person = pexpect.spawn(sys.executable, ["-c", _CODE, "gateway", "run"], cwd=str(bureau.folder), timeout=PATIENCE)
    person.expect("listening as")
    person.kill(signal.SIGHUP)
    person.expect("the configuration was reloaded")
    person.ptyproc.fileobj.close()  # as a closing terminal does; pexpect's own close would send further signals
    person.closed = person.ptyproc.closed = True
    bureau.until(lambda: not person.isalive())
    assert person.exitstatus == 0


@pytest.mark.parametrize("runs", [False, True])
def test_a_code_that_nobody_would_hear_now_is_shown_with_what_to_start(bureau: Bureau, runs: bool) -> None:
    if runs:
        bureau.start()
        bureau.until(lambda: "running" in bureau.said("gateway", "status"))
    words = ["-c", _CODE, "gateway", "pair", "webhook"]
    told, status = pexpect.run(
        f"{sys.executable} {shlex.join(words)}", cwd=str(bureau.folder), timeout=PATIENCE, withexitstatus=True
    )
    assert status == 0, told
    assert b"send this code to the bot on webhook" in told
    assert (b"no gateway is running webhook; the code works once you start one" in told) == (not runs)


def test_a_gateway_without_a_model_is_refused_with_the_fix(bureau: Bureau) -> None:
    bureau.model = ""
    bureau.configure()
    done = bureau.run("gateway", "run")
    assert done.returncode == 2
    for words in ("no model is configured", "toolcrib gateway run --base-url", "toolcrib config set model"):
        assert words in done.stderr
    assert "model=" not in done.stderr


def test_what_a_gateway_is_asked_for_needs_no_agreement_to_what_it_does_not_do(bureau: Bureau) -> None:
    process = bureau.start()
    bureau.configure(allowed="ann, eve")
    assert bureau.status()["state"] == "running"
    refused = bureau.run("gateway", "reload")
    assert refused.returncode == 2
    assert "the gateway keeps its previous configuration" in refused.stderr
    assert "platforms.webhook.allowed_users" in refused.stderr
    assert bureau.run("gateway", "stop").returncode == 0
    assert process.wait(PATIENCE) == 0
    assert bureau.run("gateway", "run").returncode == 2, "to begin with it needs agreement"


@pytest.mark.parametrize("action", ["stop", "status", "reload", "drain"])
def test_a_file_that_is_no_yaml_names_its_line_and_what_ends_a_gateway(bureau: Bureau, action: str) -> None:
    config = bureau.folder / "config.yaml"
    config.write_text("model:\n  name: [toy\n")
    done = bureau.run("gateway", action)
    assert done.returncode == 2
    assert re.search(rf"{re.escape(str(config))}.*\b[23]\b", done.stderr)
    assert "Ctrl-C at its terminal, or SIGTERM" in done.stderr


def test_a_stop_where_none_runs_says_so(bureau: Bureau) -> None:
    done = bureau.run("gateway", "stop")
    assert (done.returncode, "no gateway is running" in done.stderr) == (1, True)
    assert not [one for one in (bureau.folder / "state").iterdir() if not one.name.startswith("confirmed.json")]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("stop", "webhook"), "is for the whole gateway and takes no names"),
        (("drain", "webhook"), "is for the whole gateway and takes no names"),
        (("reload", "webhook"), "is for the whole gateway and takes no names"),
        (("status", "webhok"), "platform webhok is not enabled; enabled: console, webhook"),
        (("status", "--now"), "--now is for `toolcrib gateway stop or drain`, not for status"),
        (("statsu",), "invalid choice: 'statsu'; did you mean 'status'? (choose from run, status,"),
        ((), "the following arguments are required: ACTION\n`toolcrib gateway --help` shows details"),
    ],
)
def test_words_that_an_action_has_no_use_for_do_nothing(bureau: Bureau, words: tuple[str, ...], says: str) -> None:
    done = bureau.run("gateway", *words)
    assert (done.returncode, says in done.stderr) == (2, True), done.stderr


def test_the_status_tells_that_none_runs(bureau: Bureau) -> None:
    done = bureau.run("gateway", "status")
    assert (done.returncode, "no gateway is running; to start one" in done.stdout) == (0, True)


@pytest.mark.parametrize(
    ("role", "says"), [("ownr", "did you mean 'owner'?"), ("relase", "did you mean 'release'?"), ("x", "known: ")]
)
def test_a_role_that_nothing_names_is_given_to_nobody(bureau: Bureau, role: str, says: str) -> None:
    bureau.configure(roles="staff: [bob]", more="gateway: {approvers: {fs: [release]}}")
    done = bureau.run("gateway", "pair", "webhook", "--role", role)
    assert (done.returncode, says in done.stderr) == (2, True)
    assert "owner, release, staff" in done.stderr
    assert f"`toolcrib config set gateway.approvers.fs '[owner, {role}]'`" in done.stderr


def test_a_failed_platform_keeps_the_others_up_and_says_why(bureau: Bureau, monkeypatch: pytest.MonkeyPatch) -> None:
    bureau.configure(enabled="webhook, telegram")
    process = bureau.start()
    told = bureau.run("gateway", "status")
    assert "TELEGRAM_TOKEN" in told.stdout
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0


def test_a_gateway_that_can_t_run_says_why_and_ends(bureau: Bureau, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEBHOOK_SECRET")
    done = bureau.run("gateway", "run")
    assert done.returncode == 1
    assert "WEBHOOK_SECRET" in done.stderr
    told = bureau.run("gateway", "status").stdout  # no wait is needed: the gateway has exited, and retries nothing
    assert "died" in told
    assert "WEBHOOK_SECRET" in told
    assert "next attempt" not in told
    assert "no gateway is running" in bureau.run("gateway", "stop").stdout + bureau.run("gateway", "stop").stderr


def test_a_configuration_is_read_again_without_losing_a_chat(bureau: Bureau) -> None:
    process = bureau.start()
    assert bureau.says("one") == {"state": "kept"}
    assert bureau.says("hello", user="bob") == {"state": "refused"}
    bureau.configure(allowed="ann, bob", enabled="webhook, console")
    assert bureau.run("config", "confirm").returncode != 0, "there is no terminal to agree at"
    refused = bureau.run("gateway", "reload")
    assert refused.returncode == 2
    assert "platforms.webhook.allowed_users" in refused.stderr
    assert bureau.says("hello again", user="bob") == {"state": "refused"}
    _agree(bureau)
    told = bureau.run("gateway", "reload")
    assert (told.returncode, "console was enabled; it starts now" in told.stderr) == (0, True)
    assert bureau.says("at last", user="bob") == {"state": "kept"}
    bureau.until((bureau.folder / "socket" / "gateway").exists)
    assert bureau.says("two") == {"state": "kept"}
    bureau.until(lambda: {"re one", "re two", "re at last"} == set(bureau.texts()))

    bureau.configure(allowed="ann")
    _agree(bureau)
    process.send_signal(signal.SIGHUP)
    bureau.until(lambda: not (bureau.folder / "socket" / "gateway").exists())
    assert bureau.says("and now", user="bob") == {"state": "refused"}
    assert "console was disabled; it stops when its runs have ended" in bureau.log()

    (bureau.folder / "config.yaml").write_text("platforms: {webhook: {busy: never}}\n")
    broken = bureau.run("gateway", "reload")
    assert broken.returncode == 2
    assert f"{bureau.folder / 'config.yaml'}:1: platforms.webhook.busy: " in broken.stderr
    process.send_signal(signal.SIGHUP)
    bureau.until(lambda: "config.yaml:1: platforms.webhook.busy: " in bureau.log())
    assert bureau.says("three") == {"state": "kept"}
    bureau.until(lambda: "re three" in set(bureau.texts()))
    assert process.poll() is None


def _agree(bureau: Bureau) -> None:
    """Confirm the configuration as a person at a terminal would."""
    from agent.config import load_config
    from agent.policy.confirmation import confirm

    confirm(load_config(bureau.folder / "config.yaml"))


def test_figures_status_and_log_tell_the_same_and_nothing_of_people(bureau: Bureau) -> None:
    pytest.importorskip("prometheus_client")
    bureau.configure(more=f"gateway: {{port: {bureau.watch}}}")
    process = bureau.start("--logs", "json")
    bureau.says("hello words")
    bureau.until(lambda: "re hello words" in set(bureau.texts()))
    figures = httpx.get(f"http://127.0.0.1:{bureau.watch}/metrics", timeout=PATIENCE, verify=NO_TLS).text
    assert 'toolcrib_gateway_runs_total{platform="webhook",state="ended"} 1.0' in figures
    assert httpx.get(f"http://127.0.0.1:{bureau.watch}/healthz", timeout=PATIENCE, verify=NO_TLS).json()["ok"]
    told = bureau.until(lambda: (status := bureau.status()).get("figures", {}).get("runs", {}).get("ended") and status)
    assert (told["running"], told["figures"]["runs"]) == (True, {"begun": 1, "ended": 1, "failed": 0})
    words = bureau.run("gateway", "status").stdout
    assert "1 ended and 0 failed" in words
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    lines = [json.loads(line) for line in bureau.log().splitlines()]
    assert {"platform", "chat", "run"} <= set().union(*lines)
    assert "hello words" not in bureau.log()


def test_a_platform_where_nothing_happened_has_one_line(bureau: Bureau) -> None:
    bureau.start()
    bureau.until(lambda: "running" in bureau.said("gateway", "status"))
    told = [line for line in bureau.run("gateway", "status").stdout.splitlines() if line.startswith("webhook: ")]
    assert told == ["webhook: no messages since its start"]


def test_status_tells_what_waits_for_an_answer_and_since_when(bureau: Bureau) -> None:
    (bureau.folder / "build").mkdir()
    bureau.command = f"rm -rf {bureau.folder / 'build'}"
    bureau.configure(roles="owner: [ann]")
    bureau.start()
    bureau.says("clear it")
    bureau.until(lambda: [one for one in list(bureau.shown.values()) if one["buttons"]])
    told = bureau.run("gateway", "status").stdout
    assert re.search(r"[0-9a-f]{8}  webhook +\d+ s +.*rm -rf", told)
    [question] = json.loads(bureau.run("gateway", "status", "--json").stdout)["parked"]
    assert question["platform"] == "webhook"
