"""A process that may open few files ends with one sentence, whatever it could not open: an import, its state, a call's file.

The whole run tries some of the limits (tests/series.py), and `scripts/soak file-limits` all.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from toolcrib.testing import ChatServer


def run(folder: Path, base_url: str, seconds: str, files: int) -> subprocess.CompletedProcess[bytes]:
    """Run ``python -m toolcrib run`` with at most ``files`` open files."""
    words = ["run", "--json", "--base-url", base_url, "--model", "x", "--timeout", seconds, "hi"]
    return subprocess.run(
        [sys.executable, "-m", "toolcrib", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)),
    )


@pytest.mark.parametrize("files", range(8, 40, 2))
def test_a_run_ends_with_its_last_line(tmp_path: Path, files: int) -> None:
    done = run(tmp_path, "http://127.0.0.1:9/v1", "0.3", files)
    assert b"Traceback" not in done.stderr, done.stderr
    lines = done.stdout.decode().splitlines()
    if lines:  # with fewer files Python itself may not start
        assert json.loads(lines[-1])["type"] == "run_finished", done.stderr


@pytest.mark.parametrize("files", range(8, 40, 4))
def test_too_few_files_are_no_fault_of_a_tool_or_of_toolcrib(tmp_path: Path, files: int) -> None:
    """The imports of a first call need files too."""
    with ChatServer(ChatServer.calls(("read_file", {"path": "."})), ChatServer.text("done")) as server:
        done = run(tmp_path, server.base_url, "20", files)
    assert b"Traceback" not in done.stderr, done.stderr
    assert b"failed: OSError" not in done.stderr, done.stderr
    events = [json.loads(line) for line in done.stdout.decode().splitlines()]
    for event in events:
        if event["type"] == "error" or event.get("error"):
            told = event.get("error") or event["message"]
            assert "short of file descriptors" in told or "Too many open files" in told, told
            assert event.get("kind") != "Internal", told
    assert not events or events[-1]["type"] == "run_finished"
