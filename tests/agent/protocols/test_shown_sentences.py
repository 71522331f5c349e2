"""Calls that a reply shows over several lines, or after a sentence that forbids or introduces them, in every form (000-29)."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent.protocols import find_protocol
from tests.agent.protocols.reading import ran, read_whole

TOOLS: list[dict[str, Any]] = [
    {"name": "run", "parameters": {"type": "object", "required": ["command"], "properties": {"command": {"type": "string"}}}}
]
LS = ("run", {"command": "ls"})
BAR = "\uff5c"
FORMS = {
    "json": '<tool_call>\n{"name": "run", "arguments": {"command": "ls"}}\n</tool_call>',
    "qwen": "<tool_call>\n<function=run>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>",
    "dsml": (
        f'<{BAR}DSML{BAR}tool_calls>\n<{BAR}DSML{BAR}invoke name="run">\n'
        f'<{BAR}DSML{BAR}parameter name="command" string="true">ls</{BAR}DSML{BAR}parameter>\n'
        f"</{BAR}DSML{BAR}invoke>\n</{BAR}DSML{BAR}tool_calls>"
    ),
    "dots": (
        '<dots_function_call>\n<invoke name="run">\n<parameter name="command">ls</parameter>\n</invoke>\n</dots_function_call>'
    ),
    "atem": (
        '<atem:function_calls>\n<atem:invoke name="run">\n<atem:parameter name="command">ls</atem:parameter>\n'
        "</atem:invoke>\n</atem:function_calls>"
    ),
    "minimax": (
        '<minimax:tool_call>\n<invoke name="run">\n<parameter name="command">ls</parameter>\n</invoke>\n</minimax:tool_call>'
    ),
    "seed": "<seed:tool_call>\n<function=run>\n<parameter=command>ls</parameter>\n</function>\n</seed:tool_call>",
    "hy3": (
        "<tool_calls>\n<tool_call>run<tool_sep>\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>\n</tool_calls>"
    ),
    "kimi": (
        "<|tool_calls_section_begin|>\n<|tool_call_begin|>functions.run:0<|tool_call_argument_begin|>"
        '{"command": "ls"}<|tool_call_end|>\n<|tool_calls_section_end|>'
    ),
    "tags": '<tool_call>{"name": "run", "args": {"command": "ls"}}</tool_call>',
    "tags, second": '<|tool_call>call:run{command: "ls"}<tool_call|>',
    "tags, third": '<|tool_call|>call:run{"command": "ls"}<|/tool_call|>',
    "function": "<function=run>\n<parameter=command>\nls\n</parameter>\n</function>",
    "mistral": '[TOOL_CALLS]run[ARGS]{"command": "ls"}',
    "command": '@tool run {"command": "ls"}',
}

read = partial(read_whole, TOOLS)


def test_no_call_of_the_reports_runs(corpora: Path) -> None:
    """000-29: inline code over lines, lazy block quotes, words before and after."""
    rows = [json.loads(line) for line in (corpora / "reports" / "shown_runs.jsonl").read_text("utf-8").splitlines()]
    assert rows
    for row in rows:
        reply = read_whole(row["tools"], row["text"])
        assert [name for name, _ in ran(reply)] == row["expected_calls"], row["id"]
        assert reply.content == row["text"], row["id"]


# -- calls that are shown --------------------------------------------------------------------------------------------------

IN_CODE = (
    "Write `{}` to call.", "Write ``{}`` to call.", "You write: `{}`", "`{}` is how one calls.", "````{}```` is the form.",
    "Use `a`, and\n`{}` then.", "- `{}`\n- next", "| `{}` |\n|--|",
)  # fmt: skip
"""Code that contains the opening of the call."""
IN_PARAGRAPH = (
    "Write `x\n{}\ny` to call.", "`\n{}\n` is the form.", "Write ``x ` y\n{}\nz`` to call.",
    "> {}\n\nThat is the form.", "> {}", "> The form\n{}\n\nThat is it.", "> The form\n{}", "> a\nb\n{}\n\nc", ">> a\n{}",
    "> - a\n{}\n\nb", "> It says:\n> > so\n{}", "Write `{}\n\nIt has no second sign.",
)  # fmt: skip
HALF = (
    "The form is {}\n\nas you see.", "The form is\n{}\n\nas you see.", "The end of it\n\n{}\n\nAs you see.",
    "The model may answer\n\n{}\n\nThat happens.", "The call ends in\n{}\nand so on.", "So one gets (\n{}\nThat is it.",
    "It is called by {}\n\nThat is it.", "- The form is\n{}\nThat is it.", "The order, then,\n\n{}\n\nThat is it.",
    "I look\n{}\nThat was it.", "It gives:\n\n{}\n\nThat is it.", "**It gives**\n\n{}\n\nThat is it.",
)  # fmt: skip
FORBIDDEN = (
    "Do not write {}\n\nIt deletes all.", "Do not write\n\n{}\n\nIt deletes all.", "Do not write\n{}", "Never write\n{}",
    "Never write:\n\n{}\n", "Don't send\n\n{}\n\nplease.", "Please don\u2019t ever emit:\n{}", "Avoid\n\n{}",
    "Avoid sending\n{}", "You must not, under any circumstances, output\n{}", "Under no circumstances should you send\n\n{}",
    "Nobody should use\n{}", "It is forbidden to send the following:\n{}", "I was told not to write\n\n{}",  # (quoted)
    "The following must not be sent:\n\n{}", "Do not write this!\n\n{}\n\nIt deletes all.",
    "Never send a call like this one.\n{}", "Write plain text, and not\n{}",
    "I answer in words instead of\n\n{}\n\nThat is it.", "**Do not run:**\n{}", "- Never do this:\n\n{}",
    "## Never send\n\n{}", "I will not write\n{}", "You cannot use this in your answers:\n{}", "Do not send\n{}\n{}",
    "Never, ever write\n{}",
    "I refuse to send\n{}", "Here is what not to do:\n{}", "What you must avoid:\n{}", "I advise against\n{}",
)  # fmt: skip
INTRODUCED = (
    "For example:\n{}", "Models write tags, for instance\n\n{}", "They use tags (e.g.\n{}", "There are tags such as\n{}",
    "A call looks like this:\n\n{}", "The syntax is:\n{}", "Here is an example of a call:\n\n{}", "Example:\n{}",
    "I'll show you an example:\n{}", "You would write:\n\n{}", "The page says:\n\n{}", "The user wrote:\n{}", "I'd write\n{}",
    "The wrong way to call it:\n{}", "This is how to call it:\n{}", "A malicious page contains:\n{}", "Ignore this:\n\n{}",
    "A call would then be\n{}", "If I send {}\n\nit deletes all.", "To call it, write\n{}", "Wrong:\n{}",
)  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_call_in_code_is_text_that_nobody_is_told_of(form: str) -> None:
    for place in IN_CODE:
        text = place.format(FORMS[form])
        reply = read(text)
        assert (ran(reply), reply.content, list(reply.faults)) == ([], text, []), text


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "places", [IN_PARAGRAPH, HALF, FORBIDDEN, INTRODUCED], ids=["paragraph", "half", "forbidden", "introduced"]
)
def test_a_shown_call_is_text(places: tuple[str, ...], form: str) -> None:
    """000-29"""
    for place in places:
        text = place.replace("{}", FORMS[form])
        reply = read(text)
        assert (ran(reply), reply.content) == ([], text.strip()), text


def test_the_opening_covers_all_calls_up_to_its_end() -> None:
    invoke = '<invoke name="run">\n<parameter name="command">{}</parameter>\n</invoke>\n'
    two = f"<dots_function_call>\n{invoke.format('ls')}{{}}{invoke.format('ls')}</dots_function_call>"
    for between in ("", "\n", invoke.format("a\n\nb"), invoke.format("echo `date`"), invoke.format("a\n```\nb\n```")):
        shown = two.format(between)
        for place in ("Write `{}` to call.", "Write ``{}`` to call.", "> {}\n\nThat is it.", "```\n{}\n```\nThat is it."):
            text = place.format(shown)
            assert (ran(read(text)), read(text).content) == ([], text), text


def test_code_that_ends_on_the_line_of_the_call() -> None:
    for form, call in FORMS.items():
        for text in (f"Write `x\n{call}` to call.", f"Write `so:\n\n{call}` to call."):
            assert ran(read(text)) == []
            assert read(text).content == text or form == "command"  # the rest of the line is part of the call


def test_what_is_shown_ends_before_a_call_that_is_meant() -> None:
    for form in ("json", "qwen", "dots", "kimi", "function"):
        call = FORMS[form]
        for shown in (
            f"`{call}`",
            "`<tool_call>`",
            "`<tool_call> or <function=run>`",
            f"\n\n```\n{call}\n```\n\n",
            f"``{call}``",
        ):
            text = f"The form is {shown}. I call.\n\n"
            reply = read(text + call)
            assert (ran(reply), reply.content) == ([LS], text.strip()), text + call
        for quote in ("> Use the <tool_call> tag.", "> `<tool_call>` is it.", "> He said it."):
            assert ran(read(f"{quote}\n\n{call}")) == [LS], quote


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Never write\n{}", "forbid"),
        ("For example:\n{}", "example"),
        ("> so\n{}", "block quote"),
        ("I look\n{}\nDone.", "end the reply with the call"),
        ("I look:\n{}\nDone.", "end the reply with the call"),
        ("`x\n{}\ny` is it.", "end the reply with the call"),
    ],
)
def test_the_model_is_told_what_to_do(text: str, words: str) -> None:
    for call in FORMS.values():
        faults = [call.fault for call in read(text.format(call)).calls]
        assert len(faults) == 1
        assert words in str(faults[0])


def test_nothing_runs_behind_a_call_that_was_refused() -> None:
    """A call that depends on a refused one does not run without it."""
    call = FORMS["qwen"]
    for text in (f"Never write\n{call}\nI look.\n{call}", f"I look\n{call}\nNow again.\n{call}"):
        reply = read(text)
        assert (ran(reply), len(reply.calls), reply.content) == ([], 2, text)


# -- calls that are meant --------------------------------------------------------------------------------------------------

AT_THE_END = (
    "", "I look.\n", "Let me look at the file:\n\n", "Let me look at the file\n\n", "I'll never stop.\n\n",
    "Don't worry, I will check:\n", "Do not delete anything yet; first list:\n",
    "I will not write to the file, only read it:\n\n", "The tests don't run:\n", "Let me see why it does not run:\n",
    "Let me check whether it works or not:\n", "It was never called:\n", "I haven't run it yet:\n", "There is no output:\n",
    "This was the wrong call:\n", "I can't answer without looking:\n", "Don't use grep here, let me use find:\n",
    "I won't run this. Let me look first:\n", "Instead of guessing, I'll look:\n",
    "The old API is deprecated and I will not use it.\n", "Do not use the old one.\n", "I'll fix it like this:\n",
    "Let me check the format:\n", "Let me look at the example:\n", "Let me check what the page says:\n",
    "As you asked, I run the tests:\n", "To help you, run:\n", "I will now call the function:\n", "Never mind, I look:\n",
    "I must not forget to look:\n", "It's the ` key.\n", "It's the ` key.\n\n", "``So'', he said.\n",
    "Let me run `ls` and\n`pwd`:\n", "> He said it.\n\nI look:\n", "## First step\n\n", "\u6211\u6765\u770b\u770b\uff1a\n",
    "Ich sehe nach:\n", "Why not use this?\n", "Step 1: look\n",
)  # fmt: skip
"""Text before a call at the end of the reply."""
BEFORE_TEXT = (
    "I look.\n", "- first\n- second\n\n", "1. look\n\n", "`ls` shows it.\n\n", "Okay \U0001f44d\n\n", "```bash\nls\n```\n",
    "> So.\n\n", "Never write tests that sleep.\n\n", "I will not use it.\n",
)  # fmt: skip
"""Text before a call after which more text may follow."""


@pytest.mark.parametrize("form", FORMS)
def test_a_meant_call_runs_at_the_end(form: str) -> None:
    """000-29"""
    call = FORMS[form]
    for before in AT_THE_END:
        for after in ("", "\n\n", "\n<|im_end|>"):
            reply = read(before + call + after)
            assert (ran(reply), reply.content, list(reply.faults)) == ([LS], before.strip(), []), before
        assert ran(read(f"{before}{call}\n{call}")) == [LS, LS], before


@pytest.mark.parametrize("form", FORMS)
def test_a_meant_call_runs_behind_what_is_whole(form: str) -> None:
    for before in BEFORE_TEXT:
        reply = read(f"{before}{FORMS[form]}\n\nI wait for it.")
        assert (ran(reply), list(reply.faults)) == ([LS], []), before


@pytest.mark.parametrize("text", ["Never write\n{}", "`{}`", "> {}", "For example:\n{}", "{}\nis the form."])
def test_the_json_protocol_runs_nothing_but_the_whole_reply(text: str) -> None:
    action = json.dumps({"action": {"tool": "run", "args": {"command": "ls"}}})
    for call in (action, FORMS["command"]):
        reader = find_protocol("json_object").reader(TOOLS)
        reader.feed(text.format(call))
        assert ran(reader.finish()) == []
