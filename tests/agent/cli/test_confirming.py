"""At a start toolcrib shows what config.yaml loosens or redirects; the changes count once a person agrees."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

from agent.config import config_path, load_config, state_dir
from agent.policy.confirmation import unconfirmed
from tests.forks import Forks
from tests.fuzz.small_disk import NoDiskError, mounted

Alone = Callable[..., tuple[int, str, str]]
RULE = "# mine\napproval:\n  tools:\n    - {tool: terminal, decision: allow, why: '\x1b[2Jquick'}\n"


@pytest.fixture
def file() -> Path:
    """Return the path of a configuration whose state folder shows an earlier start."""
    path = load_config().path
    path.parent.mkdir(parents=True)
    state_dir().mkdir(parents=True)
    (state_dir() / "models.json").touch()
    return path


@pytest.fixture
def person(tmp_path: Path, forks: Forks) -> Any:
    def start(*args: str) -> Any:
        return forks.spawn(*args, cwd=tmp_path, timeout=60, encoding="utf-8", dimensions=(30, 120))

    return start


@pytest.fixture
def alone(tmp_path: Path, forks: Forks) -> Alone:
    """Return a function that runs toolcrib without a terminal, and returns its exit code and its output."""

    def run(*args: str) -> tuple[int, str, str]:
        done = forks.run(*args, cwd=tmp_path)
        return done.returncode, done.stdout, done.stderr

    return run


def _ends(process: Any) -> int | None:
    process.expect(pexpect.EOF)
    process.close()
    return process.exitstatus  # type: ignore[no-any-return]  # pexpect has no types


def test_a_start_shows_what_changed_and_asks_once(file: Path, person: Any) -> None:
    file.write_text(RULE.replace("\x1b", "\\x1b").replace("'", '"'))
    asked = person("call", "terminal", '{"command": "echo it runs"}')
    asked.expect("config.yaml has changes that loosen or redirect something. They apply after you confirm them:")
    asked.expect(r'\+ approval.tools: \{"tool": "terminal"')
    assert "\x1b[2J" not in asked.before + asked.after
    asked.expect("Type yes or no:")
    asked.sendline("no")
    asked.expect("nothing runs until you confirm them at a terminal with `toolcrib config confirm`")
    assert _ends(asked) == 2
    again = person("call", "terminal", '{"command": "true"}')
    again.expect("Type yes or no:")
    again.sendline("yes")
    assert _ends(again) == 0
    assert _ends(person("call", "terminal", '{"command": "true"}')) == 0


def test_without_a_terminal_it_is_not_obeyed_and_the_fix_is_named(file: Path, person: Any, tmp_path: Path, alone: Alone) -> None:
    file.write_text("plugins: {enabled: [mine]}\n")
    (file.parent / "plugins").mkdir()
    (file.parent / "plugins" / "mine.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    for words in (("call", "terminal", '{"command": "true"}'), ("run", "x"), ("plugins",), ("chat",), ("doctor",), ("nonsense",)):
        code, out, err = alone(*words)
        assert code in (1, 2)
        assert '+ plugins.enabled: ["mine"]' in out + err
        assert "at a terminal with `toolcrib config confirm`" in out + err
    code, out, err = alone("config", "confirm")
    assert (code, out) == (2, "")
    assert "this needs a user at a terminal, and there is none here" in err
    assert not (tmp_path / "ran").exists()
    refuses = person("config", "confirm")
    refuses.expect("Type yes or no:")
    refuses.sendline("no")
    refuses.expect("not confirmed, .*to revert the change: toolcrib config edit")
    assert _ends(refuses) == 1
    agrees = person("config", "confirm")
    agrees.expect('plugins.enabled: .*"mine".*Type yes or no:')
    agrees.sendline("yes")
    agrees.expect("confirmed")
    assert _ends(agrees) == 0
    assert alone("config", "confirm")[1] == f"{file}: nothing to confirm\n"
    alone("plugins")
    assert (tmp_path / "ran").exists()


def test_what_is_set_at_a_terminal_counts_at_once(file: Path, person: Any, alone: Alone) -> None:
    assert _ends(person("config", "set", "terminal.pass_env", "[EDITOR]")) == 0
    assert unconfirmed(load_config()) == ()
    assert _ends(person("config", "unset", "terminal.pass_env")) == 0
    assert unconfirmed(load_config()) == ()
    code, _out, err = alone("config", "set", "terminal.pass_env", "[PAGER]")
    assert (code, "nothing starts until a user confirms it at a terminal: toolcrib config confirm" in err) == (4, True)
    called = ("call", "terminal", '{"command": "true"}')
    assert alone(*called)[0] == 2
    assert _ends(person("config", "set", "tools.disabled", "[patch]")) == 0
    assert alone(*called)[0] == 2
    assert "confirms it" not in alone("config", "set", "display.thinking", "true")[2]


def test_what_only_looks_shows_what_was_confirmed_last(file: Path, person: Any, tmp_path: Path, alone: Alone) -> None:
    """No question is asked, no change counts, and a line reports it."""
    assert _ends(person("config", "set", "tools.disabled", "[patch]")) == 0
    assert _ends(person("config", "set", "terminal.timeout", "77")) == 0
    file.write_text(
        "tools: {disabled: []}  # all of them\nterminal: {timeout: 77}\n"
        "approval: {tools: [{tool: terminal, decision: allow, why: quick}]}\nplugins: {enabled: [mine]}\n"
    )
    (file.parent / "plugins").mkdir()
    (file.parent / "plugins" / "mine.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    code, out, err = alone("tools", "--json")
    assert code == 0
    assert not next(one for one in json.loads(out) if one["name"] == "patch")["granted"]
    assert err == (
        f"toolcrib: {file} has unconfirmed changes; using the last confirmed version."
        " To confirm them at a terminal: toolcrib config confirm\n"
    )
    for look in (["explain", "ls"], ["sessions"], ["approvals"], ["usage"], ["toolsets"], ["env"], ["memory"]):
        code, out, err = alone(*look)
        assert (code, "using the last confirmed version" in err) == (0, True), look
        assert "quick" not in out
    for words in (("tools", "disable", "terminal"), ("sessions", "prune", "--older-than", "9d", "--yes"), ("undo", "--yes")):
        code, _, err = alone(*words)
        assert (code, "nothing runs until you confirm them" in err) == (2, True), words
    looked = person("tools", "list")
    looked.expect("patch")
    assert _ends(looked) == 0
    assert not (tmp_path / "ran").exists()
    assert "  # all of them" in file.read_text()


@pytest.mark.full
def test_no_editor_is_opened_on_what_it_could_not_save(person: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        with mounted(tmp_path / "disk", 1024) as disk:
            monkeypatch.setenv("XDG_CONFIG_HOME", str(disk.folder))
            monkeypatch.setenv("EDITOR", f"touch {tmp_path}/opened")
            disk.refuse_writes(refuse=True)
            edited = person("config", "edit")
            edited.expect("config.yaml cannot be written: its file system is read-only; no editor was opened")
            assert _ends(edited) == 2
            disk.refuse_writes(refuse=False)
    except NoDiskError as error:
        pytest.skip(str(error))
    assert not (tmp_path / "opened").exists()


def test_an_edit_is_confirmed_and_checked(
    file: Path, person: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: Alone
) -> None:
    def edits(text: str) -> Any:
        (tmp_path / "new.yaml").write_text(text)
        monkeypatch.setenv("EDITOR", f"cp {tmp_path}/new.yaml")
        return person("config", "edit")

    edited = edits("terminal: {pass_env: [EDITOR]}\n")
    edited.expect('pass_env: .*"EDITOR".*Type yes or no:')
    edited.sendline("yes")
    edited.expect("confirmed.*no errors")
    assert _ends(edited) == 0
    edited = edits("terminal: {pass_env: [EDITOR]}\ntools: {timeout: 5}\n")
    edited.expect("nothing to confirm.*no errors")
    assert _ends(edited) == 0
    edited = edits("terminal: {pass_env: [EDITOR, PAGER]}\n")
    edited.expect("Type yes or no:")
    edited.sendline("no")
    edited.expect("not confirmed.*config.yaml: restored; your edit is in .*config.yaml.rejected")
    assert _ends(edited) == 1
    assert file.read_text() == "terminal: {pass_env: [EDITOR]}\ntools: {timeout: 5}\n"
    assert "PAGER" in file.with_name("config.yaml.rejected").read_text()
    assert unconfirmed(load_config()) == ()
    edited = edits("tols: {timeout: 5}\n")
    edited.expect("config.yaml:1: tols: unknown key.*to fix it: toolcrib config edit")
    assert _ends(edited) == 1
    monkeypatch.setenv("EDITOR", "no-such-editor")
    edited = person("config", "edit")
    edited.expect("no-such-editor cannot be started: .*set .EDITOR to your editor")
    assert _ends(edited) == 2
    assert "this needs a user at a terminal" in alone("config", "edit")[2]


def test_a_new_installation_is_provisioned_without_a_terminal(alone: Alone) -> None:
    assert alone("config", "set", "terminal.pass_env", "[PAGER]")[2] == ""
    assert alone("config", "set", "tools.disabled", "[patch]")[2] == ""
    assert alone("call", "read_file", '{"path": "/etc/hostname"}')[0] == 0
    assert alone("config", "unset", "tools.disabled")[0] == 4
    assert alone("call", "read_file", '{"path": "/etc/hostname"}')[0] == 2


def test_a_session_s_command_confirms_nothing(file: Path, alone: Alone) -> None:
    for command in ("toolcrib config confirm", "toolcrib config edit", "script -qc 'toolcrib config confirm' /dev/null"):
        code, out, _err = alone("call", "terminal", f'{{"command": "{command}"}}', "--plain")
        assert code != 0
        assert out.startswith("Denied, regardless of grants: ")


LOOKS = (
    ["doctor"],
    ["sessions"],
    ["sessions", "search", "x"],
    ["usage"],
    ["trace"],
    ["approvals"],
    ["approvals", "history"],
    ["undo", "--list"],
    ["explain", "--replay"],
)


def test_explaining_a_command_is_no_first_start(run: Any) -> None:
    assert run("explain", "ls").code == 0
    file = config_path()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("terminal: {pass_env: [LANG]}\n")
    assert run("call", "todo", "{}").code == 0


@pytest.mark.parametrize("words", LOOKS)
def test_a_command_that_only_looks_is_no_first_start(words: list[str], run: Any) -> None:
    done = run(*words)
    assert "Traceback" not in done.err
    assert not list(state_dir().glob("*")), "nothing is left behind"


def test_a_model_is_set_after_a_look_without_a_terminal(run: Any, alone: Alone) -> None:
    assert alone("doctor")[0] == 0
    model = "{base_url: 'http://127.0.0.1:9/v1', name: qwen3}"
    assert alone("config", "set", "model", model)[::2] == (0, "")
    assert alone("tools")[0] == 0


def test_a_session_ends_the_first_start(run: Any, alone: Alone) -> None:
    assert alone("call", "read_file", '{"path": "new.yaml"}')[0] == 1
    code, _out, err = alone("plugins", "enable", "nothing")
    assert code == 2
    code, _out, err = alone("config", "set", "terminal.pass_env", "[PAGER]")
    assert (code, "config confirm" in err) == (4, True)
    assert alone("config", "unset", "terminal.pass_env")[0] == 0
