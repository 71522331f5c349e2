"""The audit log: its contents, and that verification reports all changed, cut off or unfinished lines."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.config import load_config
from agent.conversation.session import Session
from agent.process import Crib
from agent.store.memory import MemoryStore
from plugins.audit.chain import Chain, files_of, head_of
from plugins.audit.verify import verify
from toolcrib import Answer, ToolCall
from toolcrib.testing import ScriptedSession

SECRET = "sk-proj-4f9Q2mZ8xK1vT7wR3yB6nC5dH0jL"


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Crib]:
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("MY_API_KEY", SECRET)

    def made(**settings: str) -> Crib:
        given = ", ".join(f"{key}: '{value}'" for key, value in settings.items())
        file = tmp_path / "config.yaml"
        file.write_text(f"plugins: {{enabled: [audit], settings: {{audit: {{{given}}}}}}}\n")
        return assemble(config=load_config(file), project_dir=tmp_path, store=MemoryStore())

    return made


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "state" / "plugin-data" / "audit" / "audit.jsonl"


def entries(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def terminal(session: Session, command: str) -> Any:
    return (await session.acall(ToolCall(ToolCall.new_id(), "terminal", {"command": command}))).result


async def test_a_run_with_calls_and_decisions_is_written_down_without_secrets(
    opened: Callable[..., Crib], log: Path, tmp_path: Path
) -> None:
    crib = opened(results="true")
    (tmp_path / "d").mkdir()
    session = await crib.open(
        asker=lambda ticket, ctx: Answer(ticket.id, payload={"approved": False, "reason": "not that"}, by="ann")
    )
    calls = [("terminal", {"command": f"echo {SECRET}"}), ("terminal", {"command": "rm -rf d"})]
    session.link.use(ScriptedSession(calls, "done"))
    await session.ask("go")
    await session.close()
    await crib.aclose()
    found = entries(log)
    events = [one["event"] for one in found]
    assert events[:2] == ["session-start", "run-start"]
    assert events[-2:] == ["run-end", "session-end"]
    [call] = [one for one in found if one["event"] == "call"]
    assert call["tool"] == "terminal"
    assert "echo " in call["args"]
    answer = next(one for one in found if one["event"] == "answer")
    assert (answer["by"], json.loads(answer["payload"])["reason"]) == ("ann", "not that")
    decisions = {one["decision"] for one in found if one["event"] == "decision"}
    assert decisions == {"allowed", "denied"}
    results = [one for one in found if one["event"] == "result"]
    assert [(one["status"], one["ran"]) for one in results] == [("success", True), ("error", False)]
    assert all(one["session"] == session.id for one in found)
    assert SECRET not in log.read_text()
    assert (log.stat().st_mode & 0o777, log.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert verify(log).problems == []


async def test_what_a_tool_prints_ends_no_line_and_forges_none(opened: Callable[..., Crib], log: Path) -> None:
    crib = opened(results="true")
    session = await crib.open()
    forged = '{"n":9,"prev":"x","event":"answer"}'
    await terminal(session, f"printf '\\n%s\\r\\n\\033[2J\\342\\200\\250\\377\\0end' '{forged}'")
    await terminal(session, "head -c 3000000 /dev/zero | tr '\\0' x")
    await session.close()
    await crib.aclose()
    assert "answer" not in {one["event"] for one in entries(log)}
    data = log.read_bytes()
    assert all(byte == 10 or 32 <= byte < 127 for byte in data)
    assert len(data) < 200_000
    assert verify(log).problems == []


@pytest.mark.parametrize("required", ["true", "false"])
async def test_a_log_that_cannot_be_written_is_told_once_and_closes_where_it_is_required(
    opened: Callable[..., Crib], tmp_path: Path, caplog: pytest.LogCaptureFixture, required: str
) -> None:
    path = tmp_path / "folder" / "log"
    path.parent.write_text("a file in the way")
    with caplog.at_level(logging.WARNING):
        crib = opened(path=str(path), required=required)
        session = await crib.open()
        results = [await terminal(session, "echo one"), await terminal(session, "echo two")]
        (tmp_path / "a").write_text("x")
        read = (await session.acall(ToolCall("r", "read_file", {"path": str(tmp_path / "a")}))).result
        path.parent.unlink()
        results.append(await terminal(session, "echo three"))
        await session.close()
        await crib.aclose()
    told = [one.getMessage() for one in caplog.records if "audit log" in one.getMessage()]
    assert len([one for one in told if "can't be written" in one]) == 1
    assert told[-1] == "the audit log can be written again"
    assert [one.is_success for one in results] == [required == "false", required == "false", True]
    assert read.is_success
    if required == "true":
        assert "audit log is required" in str(results[0].failure)
    assert verify(path).problems == []


async def test_wrong_settings_of_a_required_log_close(opened: Callable[..., Crib], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        crib = opened(required="yes", fsync="true")
    session = await crib.open()
    result = await terminal(session, "echo one")
    await session.close()
    await crib.aclose()
    assert "required: 'true' or 'false', not 'yes'" in str(result.failure)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"max_byte": "1"}, "unknown max_byte"),
        ({"fsync": "1"}, "fsync: 'true' or 'false'"),
        ({"path": "log"}, "an absolute path"),
        ({"max_bytes": "10"}, "a whole number of at least 1000"),
    ],
)
def test_wrong_settings_are_told(opened: Callable[..., Crib], settings: dict[str, str], said: str) -> None:
    with opened(**settings) as crib:
        assert said in next(one.error for one in crib.plugins if one.name == "audit")


# -- the chain -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    path = tmp_path / "audit.jsonl"
    writer = Chain(path)
    for number in range(10):
        writer.append({"event": "call", "tool": f"t{number}"})
    return path


def changed(lines: list[bytes]) -> list[bytes]:
    return [*lines[:4], lines[4].replace(b"t4", b"t5"), *lines[5:]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (changed, "line 6 does not follow the line before it"),
        (lambda lines: [*lines[:4], *lines[5:]], "line 6 follows line 4"),
        (lambda lines: [*lines[:4], lines[5], lines[4], *lines[6:]], "line 6 follows line 4"),
        (lambda lines: lines[:-3], "the end is cut off or changed: line 10 was written, the last one is 7"),
        (lambda lines: [*lines[:-1], lines[-1].replace(b"t9", b"t8")], "the end is cut off or changed"),
        (lambda lines: [*lines[:4], b"free words\n", *lines[4:]], "not a line of a log"),
        (lambda lines: [*lines, lines[-1]], "line 10 follows line 10"),
        (lambda lines: [b'{"n":[[' + b"[" * 5_000 + b"\n", *lines], "not a line of a log"),
    ],
)
def test_whatever_is_changed_is_found(chain: Path, change: Callable[[list[bytes]], list[bytes]], said: str) -> None:
    assert verify(chain).problems == []
    chain.write_bytes(b"".join(change(chain.read_bytes().splitlines(keepends=True))))
    assert said in " ".join(verify(chain).problems)


def test_a_line_of_an_earlier_check_must_be_there(chain: Path) -> None:
    head = verify(chain).head
    Chain(chain).append({"event": "call"})
    assert verify(chain, head).problems == []
    assert "no line has the digest" in verify(chain, "0" * 64).problems[0]


def test_a_log_without_its_head_is_not_taken_for_whole(chain: Path) -> None:
    head_of(chain).unlink()
    assert "it is unknown whether the end was cut off" in verify(chain).problems[0]


@pytest.mark.parametrize("left", [b'{"n":11,"prev":"ab', b"\x00\xff", None])
def test_an_unfinished_line_counts_for_nothing_and_is_closed(chain: Path, left: bytes | None) -> None:
    """A killed process or a power failure leaves an unfinished line."""
    whole = chain.read_bytes()
    chain.write_bytes(whole[:-1] if left is None else whole + left)
    assert "unfinished" in verify(chain).notes[0]
    Chain(chain).append({"event": "call", "tool": "after"})
    found = verify(chain)
    assert found.problems == []
    assert chain.read_bytes().startswith(whole)
    assert found.lines == (11 if left is None else 12)
    chain.write_bytes(chain.read_bytes().replace(left or b'"t9"', b'{"n":11,"prev":"cd' if left else b'"t8"'))
    assert verify(chain).problems


def test_files_are_rotated_by_size_and_the_chain_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log"
    writer = Chain(path, most=1_000, keep=3, sync=True)
    for number in range(60):
        writer.append({"event": "call", "number": number})
    files = files_of(path)
    assert len(files) in (3, 4)
    assert all(file.stat().st_size < 1_400 and file.stat().st_mode & 0o777 == 0o600 for file in files)
    found = verify(path)
    assert (found.problems, found.notes[0].startswith("it begins with line")) == ([], True)
    files[1].unlink()
    assert "lines are missing" in verify(path).problems[0]


def test_a_full_disk_leaves_no_half_line(tmp_path: Path) -> None:
    code = f"""
import resource, signal
from pathlib import Path
from plugins.audit.chain import Chain
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, resource.RLIM_INFINITY))
writer, failed = Chain(Path({str(tmp_path / "log")!r})), 0
for number in range(40):
    try:
        writer.append({{"event": "call", "text": "x" * 100}})
    except OSError:
        failed += 1
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
writer.append({{"event": "call"}})
print(failed)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    found = verify(tmp_path / "log")
    assert (found.problems, found.notes, found.lines + int(done.stdout)) == ([], [], 41)
    assert int(done.stdout) > 20


_WRITER = """
import sys
from pathlib import Path
from plugins.audit.chain import Chain
writer, number = Chain(Path(sys.argv[1]), most=50_000), 0
print("ready", flush=True)
while number < int(sys.argv[2]):
    writer.append({"event": "call", "by": sys.argv[3], "number": number, "text": "x" * (number % 700)})
    number += 1
"""


def _writers(path: Path, many: int, *names: str) -> list[subprocess.Popen[str]]:
    command = [sys.executable, "-c", _WRITER, str(path), str(many)]
    started = [subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True) for name in names]
    for one in started:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    return started


def test_two_processes_write_one_chain(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for one in _writers(path, 400, "a", "b"):
        with one:
            assert one.wait(60) == 0
    found = verify(path)
    assert (found.problems, found.lines) == ([], 800)
    assert len(files_of(path)) > 2
    lines = [entry for file in files_of(path) for entry in entries(file)]
    for name in ("a", "b"):
        assert [one["number"] for one in lines if one["by"] == name] == list(range(400))


def test_killed_processes_leave_a_chain_that_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "log"
    for round_ in range(6):
        writers = _writers(path, 1_000_000, "a", "b")
        before = _number(path)
        ends = time.monotonic() + 30
        while _number(path) < before + 20 + round_ * 7 and time.monotonic() < ends:
            time.sleep(0.002)
        for one in writers:
            with one:
                os.kill(one.pid, signal.SIGKILL)
        Chain(path, most=50_000).append({"event": "after"})
        found = verify(path)
        assert found.problems == []
        assert found.lines >= 20 * (round_ + 1)


def _number(path: Path) -> int:
    try:
        return int(head_of(path).read_text().split()[0])
    except (OSError, IndexError):
        return 0


def test_the_command_tells_whether_it_is_whole(chain: Path) -> None:
    command = [sys.executable, "-m", "plugins.audit", str(chain)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.startswith("intact: 10 lines; the last one is ")) == (0, True)
    chain.write_bytes(chain.read_bytes().replace(b"t4", b"t5"))
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.startswith("BROKEN: audit.jsonl:6:")) == (1, True)


def test_the_command_looks_at_the_configured_log_where_none_is_named(
    opened: Callable[..., Crib], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from agent.cli import main

    opened(path=str(tmp_path / "100% mine.jsonl")).close()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLCRIB_CONFIG", str(tmp_path / "config.yaml"))
    assert main(["call", "terminal", '{"command": "echo hi"}']) == 0
    capsys.readouterr()
    assert main(["audit"]) == 0
    assert capsys.readouterr().out.startswith("intact: ")
