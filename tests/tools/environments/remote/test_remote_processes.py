"""Which processes the remote backends signal."""

from __future__ import annotations

import os
import subprocess

from tools.environments.remote import processes


def test_a_command_that_reported_no_session_has_no_processes() -> None:
    def listed(*sessions: int) -> list[int]:
        done = subprocess.run(["bash", "-c", processes.listing(sessions)], capture_output=True, check=True)
        return [one.pid for one in processes.read(done.stdout).members]

    assert os.getpid() in listed(os.getsid(0)) or os.getsid(0) < 2
    assert listed(0, 1) == []  # processes of no session, and those of init
