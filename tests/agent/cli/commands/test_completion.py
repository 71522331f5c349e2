"""``toolcrib completion``: what bash, zsh and fish complete when a person types."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from agent.config import load_config, state_dir
from agent.model_choice.catalog import Cache
from toolcrib._testing_server import ChatServer

STARTS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
SETS_UP = {
    "bash": "bind 'set enable-bracketed-paste off'; eval \"$(toolcrib completion bash)\"",
    "zsh": 'autoload -U compinit; compinit -u -D; eval "$(toolcrib completion zsh)"',
    "fish": "toolcrib completion fish | source",
}
Types = Callable[[str], str]
SHELLS = pytest.mark.parametrize("shell", [pytest.param(shell, marks=pytest.mark.full) for shell in STARTS])


@pytest.fixture
def types(shell: str, tmp_path: Path) -> Iterator[Types]:
    """Type a line, press Tab, and return the line as the shell shows it then."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} not found: apt-get install {shell}")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "TERM": "xterm", "HISTFILE": "/dev/null"}
    process = pexpect.spawn(
        STARTS[shell][0], STARTS[shell][1:], cwd=str(tmp_path), env=env, timeout=20, encoding="utf-8", dimensions=(30, 200)
    )
    process.send(f"{SETS_UP[shell]}; echo re''ady\r")
    process.expect(r"[\r\n](?:\x1b[^\r\n]*)?ready")

    def typed(line: str) -> str:
        process.send(f"{line}\t\x01printf '<<%s>>' \x05 END\r")  # at the line's start: shown, not run
        process.expect(r"((?:<<[^<>]*>>)+)<<END>>")
        return " ".join(re.findall("<<([^<>]*)>>", process.match[1]))

    yield typed
    process.close(force=True)


LINES = (
    ("doct", "doctor"),
    ("tools dis", "tools disable"),
    ("tools show --js", "tools show --json"),
    ("undo --red", "undo --redo"),
    ("call ter", "call terminal"),
    ("tools disable patch wri", "tools disable patch write_file"),
    ("toolsets edit rea", "toolsets edit reading"),
    ("config set display.the", "config set display.theme"),
    ("config set display.theme colorb", "config set display.theme colorblind"),
    ("config set display.theme dark display.the", "config set display.theme dark display.the"),
    ("env test lo", "env test local"),
    ("chat --backend=lo", "chat --backend=local"),
    ("chat --profile fa", "chat --profile fast"),
    ("--profile fast tools show pa", "--profile fast tools show patch"),
    ("toolsets resolve --platform tele", "toolsets resolve --platform telegram"),
    ("tools --platform telegram dis", "tools --platform telegram disable"),
    ("usage --by to", "usage --by tool"),
    ("sessions export --format mark", "sessions export --format markdown"),
    ("nonsense --plat", "nonsense --plat"),
)
"""What a user types, and the completed line: each kind of words and names, in each place of a line."""
MORE_LINES = (
    ("--vers", "--version"),
    ("tools --platf", "tools --platform"),
    ("completion z", "completion zsh"),
    ("tools show pa", "tools show patch"),
    ("config get tools.dis", "config get tools.disabled"),
    ("config set model.stream f", "config set model.stream false"),
    ("config set terminal.backend doc", "config set terminal.backend docker"),
    ("chat --backend lo", "chat --backend local"),
    ("--profile fast tools sho", "--profile fast tools show"),
)
"""Further lines, for `scripts/soak completion`."""


@pytest.fixture
def session(run: Any, config: Any) -> str:
    """Configure what is completed by name, and return the id of a session."""
    config("profiles: {fast: {}}\ntoolsets: {custom: {reading: {tools: [read_file]}}}\n")
    with ChatServer(ChatServer.text("Yes.")) as server:
        assert run("run", "--base-url", server.base_url, "--model", "m", "Hello?").code == 0
    return str(json.loads(run("sessions", "--json").out)[0]["id"])


@SHELLS
def test_words_and_names_are_completed(session: str, shell: str, types: Types) -> None:
    for begun, whole in (*LINES, (f"run --resume {session[:4]}", f"run --resume {session[:12]}")):
        assert types(f"toolcrib {begun}") == f"toolcrib {whole}"


@SHELLS
def test_words_and_names_are_completed_in_more_lines(session: str, shell: str, types: Types) -> None:
    for begun, whole in (*MORE_LINES, (f"sessions show {session[:4]}", f"sessions show {session[:12]}")):
        assert types(f"toolcrib {begun}") == f"toolcrib {whole}"


@SHELLS
def test_files_are_completed_where_they_are_wanted(shell: str, types: Types, tmp_path: Path) -> None:
    (tmp_path / "picture.png").touch()
    (tmp_path / "dogs.txt").touch()
    assert types("toolcrib run --image pic") == "toolcrib run --image picture.png"
    assert types("toolcrib run dog") == "toolcrib run dogs.txt"
    assert types("toolcrib doct") == "toolcrib doctor"


@SHELLS
def test_what_a_server_calls_a_model_is_not_run_by_the_shell(run: Any, shell: str, types: Types, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    models = [{"name": name, "context": None, "tools": None} for name in ("good:7b", f"$(touch {mark})", "`id`", "a b")]
    cache = Cache()
    cache.path.parent.mkdir(parents=True, exist_ok=True)
    cache.path.write_text(json.dumps({"x": {"at": time.time(), "models": models}}))
    assert run("completion", "--names", "models").out == "good:7b\n"
    assert types("toolcrib chat --model go") == "toolcrib chat --model good:7b"
    assert types("toolcrib chat --model good:") == "toolcrib chat --model good:7b"
    assert not mark.exists()


@SHELLS
def test_a_configuration_that_nobody_confirmed_asks_nothing_there(run: Any, shell: str, types: Types) -> None:
    file = load_config().path
    file.parent.mkdir(parents=True)
    state_dir().mkdir(parents=True)
    (state_dir() / "models.json").write_text("{}")
    file.write_text("toolsets: {enabled: [file]}\n")
    assert types("toolcrib call termin") == "toolcrib call terminal"
    assert types("toolcrib doct") == "toolcrib doctor"
    assert "unconfirmed changes" in run("completion", "--names", "tools").err


def test_names_are_for_scripts_too(run: Any) -> None:
    """One option lists all kinds of names, for example the tools of a session and the backends."""
    assert "terminal" in run("completion", "--names", "tools").out.split()
    assert run("completion", "--names", "backends").out.split() == ["local", "bubblewrap", "docker", "ssh"]
    chats = ["discord", "email", "irc", "slack", "telegram", "xmpp"]
    assert run("completion", "--names", "platforms").out.split() == sorted(["acp", "api", "cli", "cron", "gateway", *chats])
    assert run("completion", "--names", "values", "--key", "display.theme").out.split()[0] == "auto"
    assert run("completion", "--names", "values", "--key", "model.context_window").out.split() == ["null"]
    assert "unknown key 'display.themes'" in run("completion", "--names", "values", "--key", "display.themes").err
    for words in (("tools", "--names"), ("env", "--names")):
        assert "unknown option --names" in run(*words).err


INSTALLED = {"bash": "bash-completion/completions/toolcrib", "zsh": "zsh/site-functions/_toolcrib"}
LOADER = Path("/usr/share/bash-completion/bash_completion")
READS = {
    "bash": "bind 'set enable-bracketed-paste off'; source "
    + (str(LOADER) if LOADER.exists() else f'"$XDG_DATA_HOME/{INSTALLED["bash"]}"'),
    "zsh": 'fpath=("$XDG_DATA_HOME/zsh/site-functions" $fpath); autoload -U compinit; compinit -u -D',
    "fish": "true",
}


@SHELLS
def test_one_command_installs_it_where_the_shell_looks(
    run: Any, shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    assert run("completion", "--install").code == 0
    monkeypatch.setitem(SETS_UP, shell, READS[shell])
    monkeypatch.setitem(STARTS, "fish", ["fish", "-i"])
    types = request.getfixturevalue("types")
    assert types("toolcrib tools dis") == "toolcrib tools disable"
    assert types("toolcrib doct") == "toolcrib doctor"


@pytest.mark.parametrize("shell", STARTS)
def test_it_says_what_it_wrote_and_takes_it_away_again(
    run: Any, shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    file = tmp_path / (f"data/{INSTALLED[shell]}" if shell in INSTALLED else "config/fish/completions/toolcrib.fish")
    first = run("completion", "--install", shell)
    assert (first.code, first.out.splitlines()[0]) == (0, f"wrote {file}")
    text = file.read_text()
    again = run("completion", "--install", shell)
    assert again.out.splitlines()[0] == f"{file} already exists"
    assert file.read_text() == text
    assert run("completion", shell, "--uninstall").out.startswith(f"removed {file}")
    assert not file.exists()
    assert "nothing to remove" in run("completion", "--uninstall", shell).out
    file.write_text("my own\n")
    for words in (("--install",), ("--uninstall",)):
        refused = run("completion", *words, shell)
        assert (refused.code, "was not written by toolcrib; move it away first" in refused.err) == (2, True)
    assert file.read_text() == "my own\n"
    file.write_text(run("completion", shell).out)  # as an older version recommended
    assert run("completion", "--install", shell).out.splitlines()[0] == f"replaced {file}"


def test_zsh_is_told_the_line_that_it_needs_until_it_is_there(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZDOTDIR", str(tmp_path))
    said = run("completion", "--install", "zsh").out.splitlines()
    assert said[1] == f"add to {tmp_path}/.zshrc, before compinit if {tmp_path}/.zshrc calls it:"
    (tmp_path / ".zshrc").write_text(said[2])
    assert run("completion", "--install", "zsh").out.splitlines()[1:] == ["new shells use it"]


def test_what_is_no_shell_of_ours_or_a_session_s_command_installs_nothing(
    run: Any, config: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("SHELL", "/bin/csh")
    assert "$SHELL is 'csh'; give the shell" in run("completion", "--install").err
    about = config("tools: {timeout: 60}\n").parent.stat()
    monkeypatch.setenv("TOOLCRIB_BELOW", f"{about.st_dev}:{about.st_ino}")
    assert "is for a user only" in run("completion", "--install", "bash").err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("action", ["run", "stop", "pause", "resume", "remove", "history"])
def test_each_action_on_a_job_is_completed_with_jobs(action: str) -> None:
    from agent.cli.choices import PLACES

    assert PLACES["cron", action] == "jobs"


def test_completion_needs_a_shell(run: Any) -> None:
    assert "name the shell: toolcrib completion bash, zsh or fish" in run("completion").err
    assert re.search(r"invalid choice: 'csh'", run("completion", "csh").err)
