"""``toolcrib setup`` without a terminal: its answers are the flags and what it detects. tests/e2e has setup at a terminal."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.config import load_config
from toolcrib.testing import ChatServer
from tools.environments.local.holding import sandbox_here

pytestmark = pytest.mark.full  # each test checks whether a sandbox opens
KEY = "sk-" + "abcdefghij" * 3
NOWHERE = ("--ports", "9")
"""Ports where no server listens."""
CALL: tuple[str, Any] = ("ready", {})


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as server:
        yield server


@pytest.fixture
def setup(run: Any, server: ChatServer) -> Callable[..., Any]:
    """Return ``setup("--model", "x")``, which probes only the port of that server."""
    return lambda *words: run("setup", "--ports", str(server.port), *words)


def file() -> Path:
    return Path(os.environ["XDG_CONFIG_HOME"]) / "toolcrib" / "config.yaml"


# -- the model ---------------------------------------------------------------------------------------------------------


def test_a_found_server_is_tried_and_written_with_comments_kept(setup: Any, server: ChatServer, config: Any) -> None:
    config("# mine\ntools:\n  timeout: 45  # long\n")
    server.responses += [ChatServer.calls(CALL, text="Here.")]
    done = setup()
    assert (done.code, server.requests[0]["tools"][0]["function"]["name"]) == (0, "ready")
    assert file().read_text() == (
        f'# mine\ntools:\n  timeout: 45  # long\n\nmodel:\n  name: "test-model"\n  base_url: "{server.base_url}"\n'
    )
    assert f"found a model server at {server.base_url}, models: test-model" in done.out
    assert "the only server or key that was detected" in done.out
    assert "✓ it called a tool natively, after 0." in done.out
    assert 'and wrote "Here."' in done.out
    assert f'wrote to {file()}:\n  model.name: "" -> "test-model"\n  model.base_url: "" -> "{server.base_url}"\n' in done.out
    assert done.out.endswith("next: toolcrib chat\n")


def test_a_second_run_changes_nothing(setup: Any, server: ChatServer, run: Any) -> None:
    assert setup("--no-test").code == 0
    before = file().read_bytes()
    server.responses += [ChatServer.calls(CALL), ChatServer.text("Hello.")]
    done = setup()
    assert (done.code, file().read_bytes()) == (0, before)
    assert f"nothing to change in {file()}" in done.out
    assert run("run", "hi").out == "Hello.\n"


def test_what_can_not_be_found_out_is_named_with_its_flag(
    run: Any, setup: Any, server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    for words, told in [
        ((), "no model server was found on this machine: use --model NAME and --base-url URL, or --provider manual"),
        (("--model", "qwen3"), "use --base-url URL"),
        (("--provider", "anthropic"), "ANTHROPIC_API_KEY is not set"),
        (("--provider", "manual", "--backend", "ssh"), "use --host HOST"),
        (("--provider", "manual", "--backend", "docker"), "use --image NAME"),
    ]:
        done = run("setup", *NOWHERE, "--no-test", *words)
        assert (done.code, told in done.err) == (2, True), done.err
    server.models = ["qwen3", "llama3"]
    done = setup("--no-test")
    assert (done.code, "use --model NAME (choices: qwen3, llama3)" in done.err) == (2, True)
    server.models = []
    assert "use --model NAME" in setup("--no-test", "--base-url", server.base_url).err
    assert not file().exists()


def test_a_model_named_alone_is_where_it_was_found(setup: Any, server: ChatServer) -> None:
    server.models = ["qwen3", "llama3"]
    assert setup("--no-test", "--model", "llama3").code == 0
    assert (load_config().model.name, load_config().model.base_url) == ("llama3", server.base_url)
    assert setup("--no-test", "--model", "qwen3").code == 0
    assert (load_config().model.name, load_config().model.base_url) == ("qwen3", server.base_url)


def test_what_the_environment_names_stays_there(run: Any, server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    server.responses += [ChatServer.calls(CALL)]
    done = run("setup", *NOWHERE)
    assert (done.code, file().exists(), server.requests[0]["model"]) == (0, False, "test-model")
    server.models = ["qwen3", "llama3"]
    done = run("setup", *NOWHERE)
    assert (done.code, "has 2 models: choose one with --model (qwen3, llama3)" in done.out) == (1, True)


@pytest.mark.parametrize(
    ("response", "told"),
    [
        (ChatServer.text("I am ready."), 'or calls in text: --provider text; it wrote "I am ready."'),
        (ChatServer.body({"error": {"message": "no such model"}}, 404), "no such model"),
        (ChatServer.body({"error": {"message": f"bad key {KEY}"}}, 401), "401"),
    ],
)
def test_a_failed_trial_writes_nothing(
    setup: Any, server: ChatServer, monkeypatch: pytest.MonkeyPatch, response: Any, told: str
) -> None:
    monkeypatch.setenv("WORK_KEY", KEY)
    server.responses += [response]
    words = ("--base-url", server.base_url, "--model", "m", "--key-env", "WORK_KEY")
    done = setup(*words)
    assert (done.code, file().exists()) == (1, False)
    assert told in done.out
    assert "to write it anyway: --no-test; nothing was written" in done.err
    assert KEY not in done.out + done.err
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert setup(*words, "--no-test").code == 0
    assert KEY not in file().read_text()


def test_calls_in_text_are_tried_in_their_protocol(setup: Any, server: ChatServer) -> None:
    server.responses += [ChatServer.text('<tool_call>\n{"name": "ready", "arguments": {}}\n</tool_call>')]
    done = setup("--provider", "text", "--model", "test-model")
    assert (done.code, "tools" in server.requests[0]) == (0, False)
    assert "it called a tool in text as auto" in done.out
    assert (load_config().model.provider, load_config().model.base_url) == ("text", server.base_url)


def test_a_vendors_key_in_the_secrets_file_is_found_and_never_shown(
    run: Any, serve: Any, config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    use = {"type": "tool_use", "id": "t1", "name": "ready", "input": {}}
    reply = {"type": "message", "id": "m", "role": "assistant", "model": "claude-x", "content": [use], "stop_reason": "tool_use"}
    vendor = serve({"/v1/models": {"data": [{"id": "claude-x"}]}, "/v1/messages": [{**reply, "usage": {}}]})
    secrets = config("model: {stream: false}\n").with_name("secrets.env")
    secrets.write_text(f"ANTHROPIC_API_KEY={KEY}\n")
    secrets.chmod(0o600)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", f"{vendor.root}/v1")
    done = run("setup", *NOWHERE)
    assert done.code == 0, done.err
    assert "found ANTHROPIC_API_KEY" in done.out
    assert "its only model is claude-x" in done.out
    assert (load_config().model.provider, load_config().model.name) == ("anthropic", "claude-x")
    assert KEY not in done.out + done.err + file().read_text()


def test_a_key_stays_with_its_server(setup: Any, server: ChatServer, config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAR_KEY", KEY)
    config("model: {name: far, base_url: 'https://far.example/v1', api_key_env: FAR_KEY}\n")
    server.responses += [ChatServer.calls(CALL)]
    done = setup("--base-url", server.base_url)
    assert (done.code, load_config().model.api_key_env) == (0, "")
    assert "authorization" not in server.headers[0]
    assert 'model.api_key_env: "FAR_KEY" -> ""' in done.out


# -- the rest ----------------------------------------------------------------------------------------------------------


def test_a_stricter_backend_stays_where_nobody_names_another(run: Any, config: Any) -> None:
    config("terminal: {backend: bubblewrap}\nmodel: {provider: manual}\nsandbox: {mode: none}\n")
    done = run("setup", *NOWHERE, "--no-test", "--yes")
    assert (done.code, load_config().terminal.backend) == (0, "bubblewrap")
    assert run("config", "confirm").code == 0
    assert run("chat", "--provider", "manual", stdin=b"").code == 0  # the first start: later changes need a confirmation
    done = run("setup", *NOWHERE, "--no-test", "--backend", "local")
    assert "with local, commands have all your rights on this machine; now they run in bubblewrap" in done.out
    assert done.code == 4
    assert "next: toolcrib config confirm" in done.out
    refused = run("run", "hi")
    assert (refused.code, "has unconfirmed changes" in refused.err) == (2, True)


def test_what_somebody_changed_in_the_file_is_not_taken_over(run: Any, config: Any) -> None:
    written = config("model: {provider: manual}\n")
    assert run("chat", stdin=b"").code == 0
    written.write_text("model: {provider: manual}\nterminal: {pass_env: [SSH_AUTH_SOCK]}\n")
    done = run("setup", *NOWHERE, "--no-test", "--yes")
    assert (done.code, "has unconfirmed changes" in done.err) == (2, True)


def test_toolsets_are_checked_and_told(run: Any) -> None:
    words = ("setup", *NOWHERE, "--provider", "manual", "--no-test", "--toolsets")
    wrong = run(*words, "codng")
    assert (wrong.code, "did you mean 'coding'?" in wrong.err, file().exists()) == (2, True, False)
    done = run(*words, "safe")
    assert "tools: safe; 5 granted: read_file, search_files, todo, session_search, clarify\n" in done.out
    assert "  missing: send_message: disabled in the configuration (no chat platform is configured: platforms)\n" in done.out
    assert load_config().toolsets.enabled == ("safe",)
    done = run(*words, "preset")
    assert 'toolsets.enabled: ["safe"] -> null' in done.out
    assert load_config().toolsets.enabled is None


def test_a_dry_run_writes_nothing(run: Any) -> None:
    done = run("setup", *NOWHERE, "--provider", "manual", "--no-test", "--dry-run")
    assert (done.code, file().exists()) == (0, False)
    assert f'would write to {file()}:\n  model.provider: "" -> "manual"\n' in done.out


def test_a_profile_gets_its_own_keys(
    setup: Any, server: ChatServer, config: Any, agree: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAR_KEY", KEY)
    config("# base\nmodel: {provider: chat, name: far, base_url: 'https://far.example/v1', api_key_env: FAR_KEY}\n")
    done = setup("--no-test", "--profile", "near", "--base-url", server.base_url, "--toolsets", "safe")
    assert done.code == 0, done.err
    assert f'  profiles.near.model.base_url: "https://far.example/v1" -> "{server.base_url}"\n' in done.out
    assert done.out.endswith("next: toolcrib --profile near chat\n")
    near, far = load_config(profile="near"), load_config(profile="")
    assert (near.model.name, near.model.base_url, near.model.api_key_env) == ("test-model", server.base_url, "")
    assert (far.model.name, far.model.api_key_env, far.toolsets.enabled) == ("far", "FAR_KEY", None)
    assert setup("--no-test", "--profile", "near", "--toolsets", "preset").code == 4  # no person is there to confirm more
    assert load_config(profile="near").toolsets.enabled is None
    assert "# base" in file().read_text()
    agree()
    assert setup("--no-test", "--profile", "near", "--key-env", "FAR_KEY").code == 4
    assert load_config(profile="near").model.api_key_env == "FAR_KEY"


def test_another_file_is_begun(run: Any, tmp_path: Path) -> None:
    other = tmp_path / "other" / "config.yaml"
    done = run("setup", *NOWHERE, "--provider", "manual", "--no-test", "--config", str(other))
    assert (done.code, other.read_text(), file().exists()) == (0, "model:\n  provider: manual\n", False)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--key-env", KEY), "looks like an API key"),
        (("--key-env", "key"), "the name of an environment variable in capitals"),
        (("--model", KEY), "looks like an API key"),
        (("--base-url", "ftp://x"), "an address that begins with http:// or https://"),
        (("--provider", "antropic"), "did you mean anthropic?"),
        (("--backend", "dokcer"), "did you mean 'docker'?"),
        (("--host", "gpu"), "--host gpu is for ssh, but the backend is local: add --backend ssh"),
        (("--ports", "web"), "expected up to 20 ports"),
    ],
)
def test_a_wrong_flag_is_told_before_anything_is_tried(run: Any, words: tuple[str, ...], told: str) -> None:
    done = run("setup", *NOWHERE, "--provider", "manual", "--no-test", *words)
    assert (done.code, told in done.err, file().exists()) == (2, True, False), done.err
    assert KEY not in done.out + done.err


def test_the_backend_is_tried(run: Any) -> None:
    done = run("setup", *NOWHERE, "--provider", "manual")
    assert done.code == 0
    assert "✓ local  local:workspace  open " in done.out
    failed = run("setup", *NOWHERE, "--provider", "manual", "--backend", "ssh", "--host", "127.0.0.1:9")
    assert failed.code != 0
    assert load_config().terminal.backend == "local"


@pytest.mark.xdist_group("bubblewrap")
def test_a_flag_chooses_the_sandbox(run: Any, config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("setup", *NOWHERE, "--no-test", "--provider", "manual")
    assert run(*words).code == 0
    assert load_config().origin("sandbox.mode") == "default"
    told = run(*words)
    assert "sandbox: commands on this machine write only the project" in told.out
    assert "snapshots: /undo and `toolcrib undo` revert changes that commands made in the project" in told.out
    if (held := sandbox_here("workspace")).mode == "workspace":
        weaker = run(*words, "--backend", "local", "--sandbox", "own", "--dry-run")
        assert "commands have all your rights on this machine; now they run in a sandbox" in weaker.out
        assert run(*words, "--sandbox", "none").code == 4  # it loosens the configuration: a person must confirm it
        config("model: {provider: manual}\nsandbox: {mode: none}\n")
        told = run(*words)
        assert ". To turn it on: --sandbox workspace" in told.out
        done = run(*words, "--sandbox", "workspace")
        assert (done.code, 'sandbox.mode: "none" -> "workspace"' in done.out) == (0, True), done.err
        assert "backend: local (this machine, in a sandbox)" in done.out
        assert load_config().sandbox.mode == "workspace"
    else:
        assert f"It does not work here: {held.why_not_more}. To get it: {held.fix}" in told.out
    refused = run(*words, "--backend", "bubblewrap", "--sandbox", "own")
    assert refused.code == 2
    assert "--sandbox own is for local without another sandbox, but the backend is bubblewrap: add --backend local" in refused.err
    monkeypatch.setattr("tools.environments.local.holding.is_supported", lambda: False)
    done = run(*words, "--sandbox", "own", "--dry-run")
    assert "note: sandbox own does not work here: bash is not found on PATH. To get it: install bash" in done.out


def test_help_teaches_and_flags_are_completed(run: Any) -> None:
    told = run("setup", "--help").out
    for words in ("examples:", "--dry-run", "exit codes:", "no option takes the key itself"):
        assert words in told
    script = run("completion", "bash").out
    (line,) = [line for line in script.splitlines() if line.strip().startswith("setup) offered=") and "--key-env" in line]
    assert "--toolsets" in line
    assert json.loads(run("config", "show", "model", "--json").out)["name"] == ""


@pytest.mark.xdist_group("docker")
def test_the_only_image_of_an_engine_is_taken(run: Any, config: Any, engine: Any) -> None:
    config(f"model: {{provider: manual}}\nenvironments: {{docker: {{host: '{engine.host}', mounts: ['/usr:/usr:ro']}}}}\n")
    done = run("setup", *NOWHERE, "--backend", "docker")
    assert done.code == 0, done.out + done.err
    assert f"the engine's only image is {engine.image}" in done.out
    assert "✓ docker" in done.out
    assert (load_config().terminal.backend, load_config().environments.docker.image) == ("docker", engine.image)
