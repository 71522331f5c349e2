"""Slash commands that plugins add to chats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.config import load_config
from agent.plugin_host.slash_commands import plugin_slash
from toolcrib import PluginError


@pytest.mark.parametrize(
    ("name", "function", "surfaces", "told"),
    [
        ("a b", print, ["chat"], "has an invalid name"),
        ("sky", None, ["chat"], "is not a function"),
        ("sky", print, "chat", "surfaces"),
        ("sky", print, [], "surfaces"),
        ("sky", print, ["phone"], "surfaces"),
    ],
)
def test_a_plugin_s_command_of_another_form_is_refused(name: str, function: Any, surfaces: Any, told: str) -> None:
    with pytest.raises(PluginError, match=told):
        plugin_slash(name, function, surfaces, "")


def test_a_plugin_says_where_its_command_is_known_and_whose_it_is(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "sky.py").write_text(
        "from toolcrib import hookimpl\n"
        "def sky(text, identity):\n    'The weather.'\n    return 'blue'\n"
        "@hookimpl\n"
        "def register_slash(add):\n"
        "    add('sky', sky)\n"
        "    add('cloud', sky, surfaces=['chat'], role='admins')\n"
    )
    (tmp_path / "config.yaml").write_text("plugins: {enabled: [sky]}\n")
    with assemble(config=load_config(tmp_path / "config.yaml"), project_dir=tmp_path) as crib:
        assert [info.error for info in crib.plugins] == [""]
        assert (crib.slash["sky"].surfaces, crib.slash["sky"].role) == (("terminal",), "")
        assert (crib.slash["cloud"].surfaces, crib.slash["cloud"].role) == (("chat",), "admins")
        assert crib.slash["cloud"].words == "The weather."
