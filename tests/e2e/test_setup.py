"""``toolcrib setup`` at a real terminal: questions, defaults, a hidden key, failing tests of the model, an interrupted run."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib.testing import ChatServer
from tools.environments.local.holding import sandbox_here

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(shutil.which("bwrap") is None, reason="local alone is no question")]
KEY = "sk-" + "qrstuvwxyz" * 3
CALL: tuple[str, Any] = ("ready", {})


@pytest.fixture
def set_up(sit_down: Callable[..., Any], server: ChatServer) -> Callable[..., Any]:
    """``set_up("--no-test")`` starts the wizard, which searches only the server's port for models."""
    return lambda *words, **env: sit_down("setup", "--ports", str(server.port), *words, **env)


def config_file() -> Path:
    return Path(os.environ["XDG_CONFIG_HOME"]) / "toolcrib" / "config.yaml"


def asked(person: Any, question: str, times: int = 1) -> str:
    """Wait until a question was asked ``times`` times and the prompt is on the last line, and return the screen."""
    return str(person.sees(rf"(?s)(?:{question}.*){{{times}}} >\Z"))


def answers(person: Any, question: str, answer: str, times: int = 1) -> None:
    asked(person, question, times)
    person.types(answer)


def test_a_person_is_led_to_a_model_that_works(set_up: Any, server: ChatServer, sit_down: Any) -> None:
    server.models = ["qwen3", "llama3"]
    server.responses += [ChatServer.calls(CALL), ChatServer.text("Hello there.")]
    person = set_up()
    answers(person, "It has 2 models. Which one?", "9")
    answers(person, "type a number from 1 to 2, or a name", "2")
    answers(person, "Where do commands run?", "")
    answers(person, "Which tools should a session have?", "safe, todo")
    screen = person.sees(r"Write this\?")
    for told in ("✓ it called a tool natively", "✓ local  local:workspace  open", "tools: safe, todo; 5 granted"):
        assert told in screen
    assert not config_file().exists()
    answers(person, "Write this", "")
    assert person.waits_for_the_end() == 0
    assert '  toolsets.enabled: null -> ["safe", "todo"]' in person.text
    assert person.text.endswith("next: toolcrib chat")
    chat = sit_down("chat")
    chat.sees("llama3 answers")
    chat.at_prompt()
    chat.types("hi")
    chat.sees("Hello there.")


@pytest.mark.parametrize("key", ["c", "d"])
@pytest.mark.parametrize("at", ["It has 2 models", "Where do commands run", "Which tools", "Write this"])
def test_an_end_at_any_question_writes_nothing(set_up: Any, server: ChatServer, at: str, key: str) -> None:
    server.models = ["qwen3", "llama3"]
    person = set_up("--no-test")
    for question, answer in (("It has 2 models", "1"), ("Where do commands run", ""), ("Which tools", ""), ("Write this", "")):
        if question == at:
            asked(person, question)
            person.presses(key)
            break
        answers(person, question, answer)
    assert person.waits_for_the_end() == 130
    assert "nothing was written" in person.text
    assert not config_file().exists()


def test_an_interrupt_ends_a_trial_and_writes_nothing(set_up: Any, server: ChatServer) -> None:
    server.responses += [ChatServer.text("late", delay=50)]
    person = set_up()
    person.sees(r"asking the model for a call \.\.\. [12] s; Ctrl-C cancels")
    person.presses("c")
    assert person.waits_for_the_end() == 130
    assert not config_file().exists()


def test_a_typed_key_is_unseen_and_kept_for_its_owner(set_up: Any, server: ChatServer) -> None:
    server.responses += [ChatServer.calls(CALL)]
    person = set_up(OPENAI_BASE_URL=server.base_url)
    screen = asked(person, "Which model do you want to use")
    number = next(line.split()[0] for line in screen.splitlines() if "OpenAI, with a key that you type now" in line)
    person.types(number)
    answers(person, "the key, stored as OPENAI_API_KEY", "two words")
    answers(person, "this is not a key", KEY)
    answers(person, "Where do commands run", "")
    answers(person, "Which tools", "")
    screen = person.sees(r"Write this\?")
    secrets = config_file().with_name("secrets.env")
    assert f"OPENAI_API_KEY: (hidden), in {secrets}" in " ".join(screen.split())
    assert not secrets.exists()
    answers(person, "Write this", "")
    assert person.waits_for_the_end() == 0
    assert KEY.encode() not in person.written
    assert (secrets.read_text(), secrets.stat().st_mode & 0o777) == (f"OPENAI_API_KEY={KEY}\n", 0o600)
    assert KEY not in config_file().read_text()
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


def test_another_server_gets_a_key_of_its_own(set_up: Any, server: ChatServer) -> None:
    server.responses += [ChatServer.calls(CALL)]
    person = set_up("--ports", "9", "--backend", "local", "--toolsets", "preset")
    for times, address in enumerate(("localhost", "http://far.example/v1"), 1):
        screen = asked(person, "Which model do you want to use", times)
        number = next(line.split()[0] for line in screen.splitlines() if "another server, by address" in line)
        person.types(number)
        answers(person, "its address, such as", address, times)
    answers(person, "Does it need a key", "3")
    answers(person, "the variable's name, in capitals", "NO_SUCH_KEY")
    answers(person, "the key, stored as NO_SUCH_KEY", KEY)
    asked(person, r"the key in NO_SUCH_KEY would be sent\s+unencrypted.*Which model do you want to use")
    person.types(number)
    answers(person, "its address, such as", server.base_url, 3)
    answers(person, "Does it need a key", "2", 2)
    answers(person, "the key, stored as KEY_OF_127_0_0_1", KEY)
    answers(person, "Write this", "1")
    assert person.waits_for_the_end() == 0
    assert KEY.encode() not in person.written
    assert config_file().with_name("secrets.env").read_text() == f"KEY_OF_127_0_0_1={KEY}\n"
    assert "api_key_env: KEY_OF_127_0_0_1" in config_file().read_text()
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


def test_a_failed_trial_is_answered_anew_kept_or_ends_it(set_up: Any, server: ChatServer) -> None:
    server.responses += [ChatServer.body({"error": {"message": "no such model"}}, 404), ChatServer.calls(CALL)]
    person = set_up("--model", "qwn", "--base-url", server.base_url, "--backend", "local", "--toolsets", "preset")
    answers(person, "What now", "1")
    answers(person, "Which model do you want to use", "1")
    answers(person, "Write this", "1")
    assert person.waits_for_the_end() == 0
    assert 'name: "test-model"' in config_file().read_text()
    before = config_file().read_bytes()
    for answer, code in (("3", 1), ("2", 0)):
        person = set_up("--model", "qwn", "--backend", "local", "--toolsets", "preset")
        answers(person, "What now", answer)
        if code == 0:
            assert config_file().read_bytes() == before
            answers(person, "Write this", "1")
        assert person.waits_for_the_end() == code
    assert "qwn" in config_file().read_text()


def test_a_screen_reader_gets_lines_that_are_added_alone(set_up: Any, config: Any) -> None:
    config("display: {screen_reader: true}\n")
    person = set_up("--provider", "manual", "--backend", "local", "--toolsets", "preset", "--yes")
    assert person.waits_for_the_end() == 0
    assert "testing the backend: a command, a file, an interrupt ...\n" in person.text
    assert b"\r\x1b[K" not in person.written


def test_a_weaker_backend_is_asked_about_again(set_up: Any, config: Any) -> None:
    config("# strict\nterminal: {backend: bubblewrap}  # for a reason\nmodel: {provider: manual}\n")
    person = set_up("--no-test")
    answers(person, "Which model do you want to use", "")
    screen = asked(person, "Where do commands run")
    number = next(line.split()[0] for line in screen.splitlines() if "local: this machine" in line)
    person.types(number)
    answers(person, "With local, commands have all your rights on this machine", "")
    answers(person, "Where do commands run", "", times=2)
    answers(person, "Which tools", "")
    assert person.waits_for_the_end() == 0
    assert "nothing to change" in person.text
    person = set_up("--no-test")
    answers(person, "Which model do you want to use", "")
    answers(person, "Where do commands run", number)
    answers(person, "With local, commands have all your rights on this machine", "2")
    answers(person, "Which tools", "")
    answers(person, "Write this", "")
    assert person.waits_for_the_end() == 0
    written = config_file().read_text()
    assert ("# strict" in written, "# for a reason" in written, "bubblewrap" in written) == (True, True, False)


def test_the_sandbox_and_snapshots_are_explained_in_two_lines(set_up: Any) -> None:
    if (held := sandbox_here("workspace")).mode != "workspace":
        pytest.skip(f"no sandbox can be made here: {held.why_not_more}")
    person = set_up("--no-test", "--provider", "manual", "--toolsets", "preset")
    screen = asked(person, "Where do commands run")
    said = " ".join(screen.split())
    assert "sandbox: commands on this machine write only the project, private caches and a private /tmp, cannot read keys" in said
    assert "snapshots: /undo and `toolcrib undo` revert changes that commands made in the project" in said
    assert re.search(r"1 current: local, sandbox workspace: .*\(recommended\)", said)
    person.types(next(line.split()[0] for line in screen.splitlines() if "no sandbox" in line))
    answers(person, "now they run in a sandbox", "2")
    answers(person, "Write this", "")
    assert person.waits_for_the_end() == 0
    assert 'sandbox.mode: "workspace" -> "none"' in person.text


def test_a_person_goes_back_at_the_end(set_up: Any, server: ChatServer) -> None:
    person = set_up("--no-test", "--provider", "manual", "--backend", "local", "--toolsets", "safe")
    answers(person, "Write this", "2")
    answers(person, "Which model do you want to use", "1")
    answers(person, "Where do commands run", "")
    answers(person, "Which tools", "")
    answers(person, "Write this", "1", times=2)
    assert person.waits_for_the_end() == 0
    written = config_file().read_text()
    assert (server.base_url in written, "manual" in written, "safe" in written) == (True, False, False)


def test_what_a_person_sets_counts_at_once(set_up: Any, sit_down: Any, server: ChatServer) -> None:
    first = sit_down("chat")
    first.at_prompt()
    first.presses("d")
    assert first.waits_for_the_end() == 0
    person = set_up("--no-test", "--yes")
    assert person.waits_for_the_end() == 0
    server.responses += [ChatServer.text("Hello there.")]
    run = sit_down("run", "hi")
    assert run.waits_for_the_end() == 0
    assert "Hello there." in run.text
