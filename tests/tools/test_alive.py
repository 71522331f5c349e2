from __future__ import annotations

import os
import subprocess

from tools import alive


def test_a_process_that_has_ended_has_no_start_and_keeps_its_number_until_it_is_waited_for() -> None:
    child = subprocess.Popen(["sh", "-c", "read line"], stdin=subprocess.PIPE)
    assert alive.exists(child.pid)
    assert (alive.started(child.pid) or "").isdigit()
    assert child.stdin is not None
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert alive.started(child.pid) is None
    assert alive.exists(child.pid)
    child.wait()
    assert not alive.exists(child.pid)
