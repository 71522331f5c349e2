"""``display.keys``: the key of each action of the chat, with clear faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.cli.screen.bindings import pressed
from agent.config import BrokenConfig, KeysConfig, key_label, key_table, load_config
from agent.config._chat_keys import do_not_clash


def read(folder: Path, keys: str) -> KeysConfig:
    file = folder / "config.yaml"
    file.write_text(f"display:\n  keys:\n    {keys}\n", encoding="utf-8")
    return load_config(file).display.keys


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ("steer: [x]", "config.yaml:3: display.keys.steer: expected a list of keys, such as ctrl-t, alt-s"),
        ("steer: [ctrl-c]", "ctrl-c and ctrl-d are reserved"),
        ("steer: ['ctrl-x ctrl-d']", "ctrl-c and ctrl-d are reserved"),
        ("steer: [hyper-s]", "display.keys.steer: expected a list of keys"),
        ("steer: alt-s", "expected a list of keys"),
        ("send: []", "display.keys.send: expected a list of keys"),
        ("stear: [f5]", "display.keys.stear: unknown key; did you mean display.keys.steer?"),
        ("leave: [f5]", "display.keys.leave: unknown key"),
        ("steer: [enter]", "display.keys: expected a different key for each action"),
        ("steer: [ctrl-x]", "no key that begins another action's sequence"),
    ],
)
def test_faults_name_the_file_the_line_and_the_key(tmp_path: Path, keys: str, fault: str) -> None:
    with pytest.raises(BrokenConfig) as broken:
        read(tmp_path, keys)
    assert fault in str(broken.value)
    assert f"{tmp_path / 'config.yaml'}:" in str(broken.value)


def test_an_action_takes_other_keys(tmp_path: Path) -> None:
    keys = read(tmp_path, "{steer: [f5, 'ctrl-x e'], send: [alt-enter], newline: [enter], suspend: []}")
    assert (keys.steer, keys.send, keys.newline, keys.suspend) == (("f5", "ctrl-x e"), ("alt-enter",), ("enter",), ())
    assert keys.edit == ("ctrl-x ctrl-e",)


def test_the_usual_keys_do_not_clash_and_are_all_told() -> None:
    assert do_not_clash(KeysConfig())
    rows = list(key_table(KeysConfig()))
    assert [name for name, _, _ in rows][-2:] == ["interrupt", "leave"]
    assert all(words.endswith(".") for _, _, words in rows)


def test_keys_as_people_and_as_prompt_toolkit_write_them() -> None:
    from prompt_toolkit.key_binding import KeyBindings

    assert key_label("ctrl-x e") == "Ctrl-X e"
    assert key_label("alt-enter") == "Alt-Enter"
    assert pressed("ctrl-x alt-s") == ("c-x", "escape", "s")
    bindings = KeyBindings()
    every = ["ctrl-@", "ctrl-up", "shift-tab", "shift-f5", "alt-ctrl-a", "alt-shift-up", "f24", "pagedown", "alt-!", "insert"]
    for key in [*every, *(key for _, keys, _ in key_table(KeysConfig()) for key in keys)]:
        if key != "shift-f5":
            bindings.add(*pressed(key))(lambda event: None)


def test_a_project_binds_no_keys(tmp_path: Path) -> None:
    """A repository may not redefine a person's keys."""
    (tmp_path / ".toolcrib").mkdir()
    (tmp_path / ".toolcrib" / "config.yaml").write_text("display: {keys: {send: [f5]}, theme: light}\n", encoding="utf-8")
    config = load_config(tmp_path / "none.yaml", project_dir=tmp_path)
    assert (config.display.keys.send, config.display.theme) == (("enter",), "light")
    assert any("display.keys" in str(notice) for notice in config.notices)
