"""The processes of a session, listed while others start and end."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tools.environments import _groups


def test_one_that_forks_and_ends_while_we_look_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = subprocess.Popen(
        ["bash", "-c", "read -r; sleep 300 & echo $!"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert leader.stdin is not None
    assert leader.stdout is not None
    listed = [path.name for path in Path("/proc").iterdir()]
    assert str(leader.pid) in listed
    leader.stdin.write(b"\n")
    leader.stdin.close()
    child = int(leader.stdout.readline())
    leader.stdout.close()
    leader.wait()
    lists = [listed]
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: lists.pop() if lists else listdir(path))
    try:
        assert [one.pid for one in _groups.members(leader.pid)] == [child]
        assert lists == []
    finally:
        os.kill(child, signal.SIGKILL)
