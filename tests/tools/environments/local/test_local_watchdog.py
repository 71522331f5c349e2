"""The watchdog that ends shells after toolcrib is killed, if they wait for another's end or keep forking."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.environments import _groups
from tools.environments.shell import watchdog

# The last process waits for the first, which is ended long before it.
WAITS = """
mkfifo end; sleep 300 >end & for i in {1..200}; do sleep 300 & done
{ exec 4<end; echo ready; read -r <&4; touch went-on; } & wait
"""
FORKS = "trap '' TERM; for i in {1..100}; do sleep 300 & done; echo ready; for i in {1..2000}; do sleep 300 & done"
NAMED = "cp $(command -v sleep) $'a\\nb'; ./a?b 300 & echo ready; wait"


@pytest.mark.parametrize("command", [WAITS, FORKS, NAMED], ids=["waits", "forks", "named"])
def test_nothing_goes_on(folder: Path, eventually: Callable[[Callable[[], object]], None], command: str) -> None:
    leader = subprocess.Popen(["bash", "-c", command], cwd=folder, stdout=subprocess.PIPE, start_new_session=True)
    assert leader.stdout is not None
    assert leader.stdout.readline() == b"ready\n"
    subprocess.run(["bash", watchdog._SCRIPT], input=f"+{leader.pid}\n".encode(), cwd="/", check=True, timeout=60)
    eventually(lambda: not _groups.members(leader.pid))
    leader.communicate(timeout=60)
    assert not (folder / "went-on").exists()
