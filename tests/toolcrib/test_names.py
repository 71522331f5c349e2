"""Names of the contract, as an editor's completion lists them."""

from __future__ import annotations

import subprocess

import toolcrib


def test_dir_lists_the_contract_without_loading_the_agent(python: str) -> None:
    assert set(toolcrib.__all__) <= set(dir(toolcrib))
    asked = "import sys, toolcrib; print('Agent' in dir(toolcrib), 'agent' in sys.modules)"
    shown = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["True", "False"]
