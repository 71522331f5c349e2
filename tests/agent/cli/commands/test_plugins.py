"""``toolcrib plugins``: listing plugins, and enabling and disabling them."""

from __future__ import annotations

import errno
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest

from agent.config import load_config

HELLO = """
__version__ = "1.2"
from toolcrib import hookimpl

@hookimpl
def register_tools(registry):
    registry.register("hello", "greeting", {"description": "Greet."}, lambda args: "hello")

@hookimpl
def tool_gate(call):
    return None
"""


def _plugin(folder: Path, name: str, text: str = HELLO) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.py"
    path.write_text(text)
    return path


def test_one_is_enabled_shown_and_disabled(run: Any) -> None:
    file = load_config().path
    where = _plugin(file.parent / "plugins", "hello")
    off = run("plugins", "info", "hello").out
    assert f"hello 1.2\n  off; from user: {where}\n  its hooks and tools are known once it is loaded\n" == off
    done = run("plugins", "enable", "Hello")
    assert done.out == f"hello: enabled, in {file}; it runs with all your rights, from {where}\n"
    assert run("plugins", "enable", "hello").out == f"hello: already enabled, in {file}\n"
    shown = run("plugins", "info", "hello").out
    assert shown == f"hello 1.2\n  loaded; from user: {where}\n  hooks: register_tools, tool_gate\n  tools: hello\n"
    where.unlink()
    assert run("plugins", "disable", "hello").out == f"hello: disabled, in {file}; running sessions keep it\n"
    assert load_config().plugins.enabled == ()


def test_a_new_one_has_a_tool_that_works_at_once(run: Any) -> None:
    file = load_config().path.parent / "plugins" / "weather.py"
    done = run("plugins", "new", "weather")
    assert done.code == 0
    assert f"wrote {file}; edit it as you like\nweather: enabled, in " in done.out
    assert """try it: toolcrib call weather '{"who": "world"}'""" in done.out
    assert run("call", "weather", '{"who": "world"}').out == '"Hello, world!"\n'
    blocked = run("call", "weather", '{"who": "world", "times": 101}')
    assert "too many times" in blocked.out + blocked.err
    assert "weather" in run("tools").out
    again = run("plugins", "new", "weather")
    assert (again.code, f"{file} already exists; choose another name" in again.err) == (2, True)
    assert "a tool 'terminal' already exists" in run("plugins", "new", "terminal").err
    assert "small letters, digits and '_'" in run("plugins", "new", "../evil").err


def test_a_projects_plugin_is_enabled_and_not_trusted_by_that(run: Any, tmp_path: Path) -> None:
    _plugin(tmp_path / ".toolcrib" / "plugins", "mine")
    done = run("plugins", "enable", "mine")
    assert "is not trusted in its current state: read it, then `toolcrib plugins trust`" in done.out
    assert "not trusted" in run("plugins").out
    assert load_config().plugins.trusted_projects == {}


def test_trust_is_given_at_a_terminal_alone(run: Any, tmp_path: Path) -> None:
    """A test has no terminal, or runs in the background."""
    _plugin(tmp_path / ".toolcrib" / "plugins", "mine")
    done = run("plugins", "trust")
    assert done.code == 2
    assert "this needs a user at a terminal" in done.err
    assert load_config().plugins.trusted_projects == {}


def test_an_empty_folder_of_plugins_has_nothing_to_trust(run: Any, tmp_path: Path) -> None:
    (tmp_path / ".toolcrib" / "plugins").mkdir(parents=True)
    done = run("plugins", "trust")
    assert (done.code, "contains no plugin" in done.err) == (2, True)


@pytest.mark.parametrize("answer", ["yes", "no"])
def test_a_person_trusts_a_project_as_it_is_now(run: Any, tmp_path: Path, answer: str) -> None:
    plugin = _plugin(tmp_path / ".toolcrib" / "plugins", "mine")
    command = Path(sys.executable).with_name("toolcrib")
    person = pexpect.spawn(str(command), ["plugins", "trust"], cwd=str(tmp_path), timeout=60, encoding="utf-8")
    person.expect("which run with all your rights once they are enabled:.*mine.*Type yes or no:")
    person.sendline(answer)
    person.expect("its plugins are trusted in their current state" if answer == "yes" else "not trusted")
    person.expect(pexpect.EOF)
    person.close()
    assert person.exitstatus == 0
    run("plugins", "enable", "mine")
    (mine,) = (line.split() for line in run("plugins").out.splitlines() if line.startswith("mine "))
    assert mine[:4] == ["mine", "project", "1.2", "loaded" if answer == "yes" else "failed"]
    if answer == "yes":
        assert "its plugins are already trusted in their current state" in run("plugins", "trust").out
        plugin.write_text(HELLO + "# more\n")
        assert "its plugins changed since you trusted them" in run("plugins").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("enable", "helo"), "there is no plugin 'helo'; did you mean 'hello'?"),
        (("info", "zzz"), "there is no plugin 'zzz'; the plugins are: "),
        (("disable", "hello"), "'hello' is not enabled (enabled: none)"),
        (("enable",), "give the plugin: toolcrib plugins enable NAME"),
        (("list", "hello"), "`plugins list` takes no name"),
        (("trust",), "has no plugins of its own (.toolcrib/plugins)"),
    ],
)
def test_what_can_not_be_done_names_the_fix(run: Any, words: tuple[str, ...], said: str) -> None:
    _plugin(load_config().path.parent / "plugins", "hello")
    done = run("plugins", *words)
    assert done.code == 2
    assert said in done.err


def test_new_where_nothing_can_be_written_is_told_in_a_sentence(run: Any, config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = config("").parent
    make = Path.mkdir

    def refuse(self: Path, *args: Any, **how: Any) -> None:
        if self == folder / "plugins":  # root passes the permissions of a real folder
            raise OSError(errno.EROFS, "Read-only file system")
        make(self, *args, **how)

    monkeypatch.setattr(Path, "mkdir", refuse)
    done = run("plugins", "new", "mine")
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert "mine.py cannot be written: Read-only file system" in done.err


def test_one_that_is_enabled_and_can_not_be_loaded_is_told_at_once(run: Any) -> None:
    _plugin(load_config().folder / "plugins", "broken", "import nothing_of_that_name\n")
    done = run("plugins", "enable", "broken")
    assert done.code == 1
    assert "broken: enabled, in " in done.out
    assert "broken: cannot be loaded, so it is inactive until this is fixed: ModuleNotFoundError: " in done.err
    assert run("plugins", "enable", "broken").code == 1, "again"


def test_a_command_of_the_chat_that_nobody_can_reach_is_told(run: Any) -> None:
    source = "from toolcrib import hookimpl\n@hookimpl\ndef register_slash(add):\n    add('help', lambda text, identity: '')\n"
    _plugin(load_config().folder / "plugins", "helper", source)
    assert run("plugins", "enable", "helper").code == 0
    assert run("plugins").out.endswith("\na plugin adds /help, which is a command of the chat\n")
