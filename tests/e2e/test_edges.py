"""Commands in scripts and shells: outputs that can't be written, and keys that must not be printed."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from toolcrib.testing import ChatServer

pytestmark = pytest.mark.e2e
COMMAND = str(Path(sys.executable).with_name("toolcrib"))
KEY = "sk-0123456789abcdefSECRET"
ESCAPES = "\x1b[31mred \x1b]52;c;aGk=\x07 \x9b5m \u202eturned \x00 end"


def shell(project: Path, server: ChatServer, line: str) -> subprocess.CompletedProcess[bytes]:
    env = {**os.environ, "OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": KEY, "TC": COMMAND}
    return subprocess.run(["bash", "-c", line], cwd=project, env=env, capture_output=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ('"$TC" run hi >/dev/full', 1, b"the output cannot be written"),
        ('"$TC" run hi --json >/dev/full', 1, b"the output cannot be written"),
        ('echo hi | "$TC" chat >/dev/full', 1, b"the output cannot be written"),
        ('"$TC" run hi >&-', 0, b""),
        ('"$TC" run hi 2>&-', 0, b""),
        ('"$TC" run - <&-', 2, b"standard input is closed"),
        ('"$TC" chat <&-', 0, b""),
        ('"$TC" run hi --json | head -1', 0, b""),
    ],
)
def test_outputs_and_inputs_that_are_not_there(project: Path, server: ChatServer, line: str, code: int, words: bytes) -> None:
    server.responses += [ChatServer.text("Hello.")]
    done = shell(project, server, line)
    assert done.returncode == code
    assert b"Traceback" not in done.stderr
    assert words in done.stderr


def test_the_key_goes_to_the_server_and_nowhere_else(project: Path, server: ChatServer) -> None:
    """The key must not appear in outputs, traces, events or stored data.

    It could appear there, because a server's error repeats it and a tool reads it. Snapshots contain project files unchanged,
    and only their owner can read them.
    """
    (project / "leak").write_text(f"key: {KEY}\n")
    read: list[tuple[str, Any]] = [("read_file", {"path": "leak"}), ("terminal", {"command": "cat leak; env; set"})]
    told = b""
    for options in ("", "--json", "--trace"):
        server.responses += [ChatServer.calls(*read), ChatServer.text("Well.")]
        server.responses += [ChatServer.body({"error": {"message": f"bad key {KEY}"}}, 401)]
        done = shell(project, server, f'"$TC" run go {options}; "$TC" run again {options}; "$TC" trace')
        told += done.stdout + done.stderr
    assert len(server.requests) == 9
    assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    assert all(KEY not in str(request) for request in server.requests)
    assert b"AuthFailed" in told
    assert KEY.encode() not in told
    state = Path(os.environ["XDG_STATE_HOME"], "toolcrib")
    assert stat.S_IMODE((state / "snapshots").stat().st_mode) == 0o700
    kept = [file for file in state.rglob("*") if file.is_file() and state / "snapshots" not in file.parents]
    assert any(file.name == "toolcrib.db" for file in kept)
    assert all(KEY.encode() not in file.read_bytes() for file in kept)


@pytest.mark.parametrize("options", ["", "--json", "--trace"])
def test_a_models_escape_sequences_do_not_reach_the_terminal(project: Path, server: ChatServer, options: str) -> None:
    calls: list[tuple[str, Any]] = [
        (f"no{ESCAPES}", {ESCAPES: ESCAPES}),
        ("read_file", {"path": ESCAPES}),
        ("read_file", ESCAPES),
    ]
    server.responses += [ChatServer.calls(*calls, text=ESCAPES), ChatServer.text(f"# {ESCAPES}\n```\n{ESCAPES}\n```\n", piece=1)]
    server.responses += [ChatServer.body({"error": {"message": ESCAPES}}, 400)]
    done = shell(project, server, f'"$TC" run go {options}; "$TC" run again {options}; "$TC" trace; "$TC" sessions')
    assert len(server.requests) == 3
    shown = (done.stdout + done.stderr).decode()
    assert "red" in shown
    assert not [char for char in shown if char in "\x1b\x07\x9b\u202e\x00"]


def test_nor_in_a_chat(sit_down: Any, server: ChatServer) -> None:
    person = sit_down("chat", "--base-url", server.base_url, "--model", "test-model")
    person.at_prompt()
    server.responses += [
        ChatServer.calls(("read_file", {"path": ESCAPES}), text=f"{ESCAPES}\n\n"),
        ChatServer.text(f"# {ESCAPES}\n\n| {ESCAPES} |\n|--|\n\n```\n{ESCAPES}\n```\n\nend.\n", piece=3),
    ]
    person.types("go")
    person.sees(r"^end\.$")
    screen = person.at_prompt()
    assert screen.count("^[[31mred ^[]52;c;aGk=^G") >= 4
    assert "\\u202eturned" in screen
