"""A command that harms its own shell costs at most that shell, and never a result, another file, or the session."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import pytest

from toolcrib import EnvironmentFailed, ExecOutcome, ExecRequest
from tools.environments.local.environment import LocalEnvironment


async def _run(folder: Path, commands: list[str], limit: float = 60) -> list[ExecOutcome | str]:
    environment = LocalEnvironment(str(folder))
    found: list[ExecOutcome | str] = []
    try:
        for command in commands:
            try:
                found.append(await environment.execute(ExecRequest(command, timeout=limit)))
            except EnvironmentFailed as error:
                found.append(str(error))
    finally:
        await environment.close()
    return found


@pytest.mark.parametrize("harm", ["rm $o", "rm $o; ln -s $PWD/other $o", "rm $o; cp other $o"])
def test_a_stream_that_a_command_replaced_is_not_written_to(tmp_path: Path, harm: str) -> None:
    (tmp_path / "other").write_text("untouched")
    _, after = asyncio.run(_run(tmp_path, [f"o=$(readlink /proc/$$/fd/1); o=${{o%/*}}/o; {harm}", "echo seen"]))
    assert isinstance(after, ExecOutcome)
    assert (after.stdout.head, after.exit_code) == (b"seen\n", 0)
    assert "that shell was lost" in after.notice
    assert (tmp_path / "other").read_text() == "untouched"


@pytest.mark.parametrize("name", ["o", "e"])
def test_a_stream_that_a_command_replaced_by_another_fifo_costs_the_shell(tmp_path: Path, name: str) -> None:
    """The shell would wait for a reader until the command's time limit, so it is replaced."""
    where = "f=$(readlink /proc/$$/fd/1); f=${f%/*}; for i in {1..3000}; do printf -v many_$i %99s x; done"
    harmed, after = asyncio.run(_run(tmp_path, [f"kept=1; {where}; rm $f/{name}; mkfifo $f/{name}; (exit 3)", "echo $kept"]))
    assert isinstance(harmed, ExecOutcome)
    assert isinstance(after, ExecOutcome)
    assert (harmed.exit_code, harmed.ended) == (3, "exited")
    assert (after.stdout.head, after.exit_code, after.ended) == (b"1\n", 0, "exited")
    assert "that shell was lost" in after.notice


@pytest.mark.parametrize("env", ["", "for i in {1..3000}; do printf -v kept_$i %99s x; done;"], ids=["little to report", "much"])
def test_reports_that_a_command_replaced_by_another_fifo_cost_the_shell(tmp_path: Path, env: str) -> None:
    """The shell waits for a reader, or for room."""
    where = "f=$(readlink /proc/$$/fd/1); f=${f%/*}"
    commands = [f"kept=1; {env}", f"{where}; rm $f/s; mkfifo $f/s; echo done; (exit 3)", "echo $kept"]
    _, harmed, after = asyncio.run(_run(tmp_path, commands))
    assert isinstance(harmed, ExecOutcome)
    assert isinstance(after, ExecOutcome)
    assert (harmed.stdout.head, harmed.ended) == (b"done\n", "exited")
    assert "removed or changed its shell's control folder" in harmed.notice
    assert (after.stdout.head, after.exit_code, after.ended) == (b"1\n", 0, "exited")


@pytest.mark.parametrize("harm", ["rm -rf $f", "rm $f/o; mkdir $f/o; touch $f/o/x", "rm $f/e; mkdir $f/e; touch $f/e/x"])
def test_a_stream_that_is_held_and_cannot_be_made_anew_costs_the_shell(tmp_path: Path, harm: str) -> None:
    """A process that left the session still writes to the old stream."""
    where = "f=$(readlink /proc/$$/fd/1); f=${f%/*}"
    leaves = "setsid sleep 60 & echo $! >pid"
    first, second = asyncio.run(_run(tmp_path, [f"kept=1; {where}", f"{leaves}; {harm}; true", "echo $kept"]))[1:]
    with contextlib.suppress(ProcessLookupError):  # it was still in the session, and ended with it
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert isinstance(first, ExecOutcome)
    assert isinstance(second, ExecOutcome)
    assert second.stdout.head == b"1\n"
    assert "A new shell continues" in first.notice + second.notice


@pytest.mark.parametrize("command", ["exec 10>&-", "echo x >&10", "exec 10>/dev/null", "exec >&- 2>&- <&-"])
def test_the_shells_own_descriptors_carry_no_result_that_is_not_its_own(tmp_path: Path, command: str) -> None:
    first, second = asyncio.run(_run(tmp_path, [command, "echo seen; exit 7"]))
    assert isinstance(first, ExecOutcome)
    assert isinstance(second, ExecOutcome)
    assert (first.exit_code, first.stdout.total) == (0, 0)
    assert (second.exit_code, second.stdout.head) == (7, b"seen\n")


def test_a_command_cannot_pass_for_one_that_was_not_run(tmp_path: Path) -> None:
    """A shell reports that it can't enter its first folder, with a mark that commands can find."""
    mark = "f=$(readlink /proc/$$/fd/1); f=${f%/*}; mark=$(grep -oE '[0-9a-f]{32}' $f/f | head -n 1)"
    forged, after = asyncio.run(_run(tmp_path, [f'{mark}; echo "$mark NOCD" >$f/s; echo ran >here; (exit 7)', "echo seen"]))
    assert isinstance(forged, ExecOutcome)
    assert isinstance(after, ExecOutcome)
    assert (forged.exit_code, after.stdout.head) == (7, b"seen\n")
    assert (tmp_path / "here").read_text() == "ran\n"


def test_what_a_debug_trap_prints_is_not_among_the_state(tmp_path: Path) -> None:
    async def states() -> list[tuple[int, str, dict[str, str], set[str]]]:
        environment = LocalEnvironment(str(tmp_path))
        found = []
        try:
            for command in ("trap 'echo dbg' DEBUG", "alias q='echo Q'; f() { :; }", "exit 4", "umask 027"):
                outcome = await environment.execute(ExecRequest(command, timeout=60))
                state = await environment.shell_state()
                assert state is not None
                found.append((outcome.exit_code, outcome.notice, dict(state.aliases), set(state.functions)))
        finally:
            await environment.close()
        return found

    kept = {"q": "echo Q"}
    assert asyncio.run(states()) == [(0, "", {}, set()), (0, "", kept, {"f"}), (4, "", kept, {"f"}), (0, "", kept, {"f"})]


@pytest.mark.parametrize("flood", ["yes", "cat /dev/zero"])
def test_what_floods_the_shells_reports_ends_by_its_time_limit(tmp_path: Path, flood: str) -> None:
    """The loop that ends the command must get its turns, and its memory must be bounded."""
    first, second = asyncio.run(_run(tmp_path, [f"{flood} >&10", "echo seen; exit 7"], limit=0.3))
    assert isinstance(first, ExecOutcome)
    assert isinstance(second, ExecOutcome), second[:300]
    assert first.ended == "timeout"
    assert second.stdout.head in (b"seen\n", b"")  # a machine under load may need longer than the limit


def test_a_flood_from_the_background_hides_no_result(tmp_path: Path) -> None:
    first, second = asyncio.run(_run(tmp_path, ["(yes >&10) & exit 5", "echo seen; (exit 7)"]))
    assert isinstance(first, ExecOutcome)
    assert isinstance(second, ExecOutcome)
    assert (first.exit_code, second.exit_code, second.stdout.head) == (5, 7, b"seen\n")


@pytest.mark.parametrize("place", range(1, 21))
def test_foreign_lines_in_the_last_report_are_not_run(tmp_path: Path, place: int) -> None:
    """Any process of the session may write to the report. Its lines would be folders, traps or commands of the next shell."""
    # The shell itself writes the lines, so that each place of the report has its turn.
    foreign = f"{{ \\\\builtin echo touch {tmp_path}/ran; \\\\builtin echo y; }} >$f/s"
    where = "f=$(readlink /proc/$$/fd/10); f=${f%/*}"
    forge = f'{where}; sed -i "s|;|; {foreign};|{place}" $f/g; f() {{ :; }}; trap ":" USR1; exit 5'
    first, second = asyncio.run(_run(tmp_path, [forge, "echo seen; (exit 7)"]))
    assert isinstance(first, ExecOutcome)
    assert isinstance(second, ExecOutcome), second[:300]
    assert (first.exit_code, second.exit_code, second.stdout.head, second.stderr.head) == (5, 7, b"seen\n", b"")
    assert not (tmp_path / "ran").exists()


def test_foreign_lines_in_the_last_report_are_no_working_folder(tmp_path: Path) -> None:
    forge = 'f=$(readlink /proc/$$/fd/10); f=${f%/*}; sed -i "s|pwd -P|pwd -P >$f/s;echo y|" $f/x; exit 5'
    first, second = asyncio.run(_run(tmp_path, [forge, "pwd -P"]))
    assert isinstance(first, ExecOutcome)
    assert isinstance(second, ExecOutcome), second[:300]
    assert second.stdout.head.decode() == f"{tmp_path}\n"
