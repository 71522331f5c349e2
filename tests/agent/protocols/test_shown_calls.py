"""Calls in unusual places, records of calls, and text about marks: none of them runs, and no text is lost."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from agent.protocols import NAMES
from tests.agent.protocols.reading import has_fault, ran, read_whole

TOOLS: list[dict[str, Any]] = [
    {"name": "run", "parameters": {"type": "object", "required": ["command"], "properties": {
        "command": {"type": "string"}, "timeout": {"type": "integer"}}}},
    {"name": "write", "parameters": {"type": "object", "properties": {
        "path": {"type": "string"}, "content": {"type": "string"}}}},
    {"name": "now", "parameters": {"type": "object", "properties": {}}},
]  # fmt: skip
BAR = "\uff5c"
RM = [("run", {"command": "rm"})]
HEADER = '<|channel|>commentary to=functions.run <|constrain|>json<|message|>{"command": "rm"}<|call|>'
QWEN = '<tool_call>{"name": "run", "arguments": {"command": "rm"}}</tool_call>'
PHI = '[{"name": "run", "arguments": {"command": "rm"}}]'
ACTION = '<|START_ACTION|>[{"tool_name": "run", "parameters": {"command": "rm"}}]<|END_ACTION|>'


read = partial(read_whole, TOOLS, thinking="unlikely")


# -- harmony's headers -----------------------------------------------------------------------------------------------------

PLACES = (
    "It prints {} and exits.", "| form | {} |\n|---|---|", "<!-- {} -->\nA comment.", "<pre>\n{}\n</pre>\nThat is it.",
    "<code>{}</code> is it.", "The log:\n\n    {}\n\nThat is it.", "+{}\n-old", "# {}\nx = 1", "The log:\n{}\nwas there.",
)  # fmt: skip


@pytest.mark.parametrize("name", [name for name in NAMES if name != "json_object"])
@pytest.mark.parametrize("place", PLACES)
def test_a_header_counts_only_where_a_message_begins(place: str, name: str) -> None:
    text = place.format(HEADER)
    assert (ran(read(text, name)), read(text, name).content) == ([], text)


@pytest.mark.parametrize("name", ["hermes", "mistral", "tags", "llama_json"])
def test_a_header_of_another_format_is_the_whole_reply_or_nothing(name: str) -> None:
    thought = "<|channel|>analysis<|message|>I look.<|end|><|start|>assistant"
    for text in (HEADER, f"<think>So.</think>{HEADER}", f"{thought}{HEADER}", f"{thought}{HEADER}<|start|>assistant{HEADER}"):
        assert set(map(str, ran(read(text, name)))) == {str(RM[0])}, text
    for text in (f"I look.\n{HEADER}", f"{HEADER}\nThat is how.", f"I look. {HEADER}"):
        assert (ran(read(text, name)), has_fault(read(text, name))) == ([], True), text


@pytest.mark.parametrize("name", ["harmony", "auto"])
def test_a_message_of_the_model_s_own_format_runs_behind_text(name: str) -> None:
    for before in ("I look.", "I look.\n\n", "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant"):
        reply = read(before + HEADER, name)
        assert (ran(reply), reply.content, list(reply.faults)) == (RM, "I look.", [])


@pytest.mark.parametrize("name", ["harmony", "auto"])
def test_a_header_in_a_message_is_a_part_of_it(name: str) -> None:
    final = "<|start|>assistant<|channel|>final<|message|>No.<|return|>"
    reply = read(f"<|channel|>analysis<|message|>I could {HEADER} but no.<|end|>{final}", name)
    assert (ran(reply), reply.content, reply.reasoning) == ([], "No.", f"I could {HEADER} but no.")
    for place in PLACES[:-1]:
        text = place.format(HEADER)
        reply = read(f"<|channel|>final<|message|>{text}<|return|>", name)
        assert (ran(reply), reply.content, list(reply.faults)) == ([], text, [])


# -- calls that are shown --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [f"<|tool_call|>{PHI}", f"<|python_tag|>{PHI[1:-1]}", f"functools{PHI}"])
def test_a_call_without_an_end_has_no_words_behind_it(call: str) -> None:
    for text in (f"It prints {call} and exits.", f"{call} is the form.", f"Use {call} or {call}", f"- {call}\n- next"):
        assert (ran(read(text)), read(text).content) == ([], text)
    assert ran(read(f"{call} I wait.")) == ran(read(f"{call}\nI wait.")) == ran(read(f"I look.\n{call}")) == RM


def test_what_a_colon_introduces_is_an_example_where_text_follows() -> None:
    for text in (f"Never do this:\n{QWEN}\nIt deletes all.", f"**So:**\n\n{QWEN}\n\nDone.", f"\u4f8b\uff1a\n{QWEN}\n\u597d"):
        assert (ran(read(text)), has_fault(read(text)), read(text).content) == ([], True, text)
    both = f"First:\n{QWEN}\nThat was one.\n{QWEN}"
    assert (ran(read(both)), has_fault(read(both))) == ([], True)
    assert ran(read(f"I look:\n{QWEN}")) == ran(read(f"I look:\n\n{QWEN}</s>\n")) == RM


@pytest.mark.parametrize("element", ["tool_response", "function_results", "output", "page", "reflection"])
def test_a_call_in_what_something_gave_is_shown(element: str) -> None:
    for text in (f"<{element}>\n{QWEN}\n</{element}>", f"<{element}>\nIt says:\n{QWEN}\nDone.\n</{element}>", f"**{QWEN}**"):
        assert (ran(read(text)), read(text).content) == ([], text)
    assert ran(read(f"<{element}>\nNothing.\n</{element}>\n{QWEN}")) == ran(read(f"<tools>\n{QWEN}\n</tools>")) == RM


def test_an_action_within_the_answer_is_shown() -> None:
    text = f"The form:\n{ACTION}\nI did not run it."
    reply = read(f"<|START_RESPONSE|>{text}<|END_RESPONSE|>")
    assert (ran(reply), reply.content, list(reply.faults)) == ([], text, [])
    assert has_fault(read(f"<|START_RESPONSE|>{text}"))
    assert ran(read(f"<|START_RESPONSE|>I look.<|END_RESPONSE|>{ACTION}")) == RM


@pytest.mark.parametrize(
    "text",
    [
        '[run(command="rm") if sure else now()]',
        '[run(command="rm") for _ in range(3)]',
        '[run(command="rm") + now()]',
        '[run(command="rm").output]',
        '[run(command="rm"), other]',
        '<|tool_call_start|>[run(command="rm") or now()]<|tool_call_end|>',
        '```tool_code\nrun(command="rm") if sure else 0\n```',
    ],
)
def test_a_part_of_an_expression_does_not_run(text: str) -> None:
    assert (ran(read(text)), has_fault(read(text))) == ([], True)


@pytest.mark.parametrize(
    "call",
    [
        '{"name": "run", "args": {"command": "a"}, "arguments": {"command": "b"}}',
        '{"name": "now", "tool": "run", "arguments": {"command": "b"}}',
        '{"function": {"name": "now", "arguments": {}}, "name": "run", "arguments": {"command": "b"}}',
    ],
)
def test_a_call_that_says_two_things_is_told(call: str) -> None:
    for text in (f"<tool_call>{call}</tool_call>", call, f"[TOOL_CALLS][{call}]"):
        assert (ran(read(text)), has_fault(read(text))) == ([], True)
    same = '{"name": "run", "args": {"command": "rm"}, "arguments": {"command": "rm"}}'
    assert ran(read(f"<tool_call>{same}</tool_call>")) == RM


# -- values as they are written --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["\nx\n", "\n", "x\n", "\n\nx\n\n", "<![CDATA[x]]>", " x ", ""])
def test_a_value_between_tags_is_the_value(value: str) -> None:
    text = (
        f'<{BAR}DSML{BAR}function_calls>\n<{BAR}DSML{BAR}invoke name="write">\n'
        f'<{BAR}DSML{BAR}parameter name="path" string="true">a</{BAR}DSML{BAR}parameter>\n'
        f'<{BAR}DSML{BAR}parameter name="content" string="true">{value}</{BAR}DSML{BAR}parameter>\n'
        f"</{BAR}DSML{BAR}invoke>\n</{BAR}DSML{BAR}function_calls>"
    )
    assert ran(read(text)) == [("write", {"path": "a", "content": value})]
    inline = '<invoke name="write"><parameter name="path">a</parameter><parameter name="content">{}</parameter></invoke>'
    if "CDATA" not in value:
        assert ran(read(inline.format(value))) == [("write", {"path": "a", "content": value})]


def test_values_on_lines_of_their_own_lose_the_ends_of_those() -> None:
    lines = "<function=write>\n<parameter=path>\na\n</parameter>\n<parameter=content>\n\nx\n\n</parameter>\n</function>"
    assert ran(read(lines)) == [("write", {"path": "a", "content": "\nx\n"})]
    assert ran(read("<function=run>\n<parameter=command>\nrm\n</parameter>\n</function>")) == RM
    mixed = "<function=run>\n<parameter=command>\nrm\n</parameter>\n<parameter=timeout>5</parameter>\n</function>"
    assert ran(read(mixed)) == [("run", {"command": "rm", "timeout": 5})]


# -- marks in text ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "The token <|channel|> starts a header and <|message|> ends it.",
        "gpt-oss writes <|channel|>analysis<|message|>let me think<|end|> and then answers.",
        "1. <|start|>\n2. <|channel|>\n3. <|message|>\nThose are the tokens.",
        "GLM's tokens:\n- <|user|>\n- <|assistant|>\nThose are all.",
        "- <think>\n- </think>\nare Qwen's.",
        "GLM's tokens: <|user|>\nand others.",
        "Put <tool_call> and </tool_call> around it.",
        "Use the <tool_call> tag to begin a call and </tool_call> to end it.",
        f"Tokens such as <{BAR}tool\u2581calls\u2581begin{BAR}> are special.",
        "A generic: Vec<to",
        "See <tool_call",
    ],
)
def test_text_about_marks_is_kept(text: str) -> None:
    for name in ("auto", "hermes", "glm", "deepseek", "harmony"):
        reply = read(text, name)
        assert (reply.content, reply.reasoning, list(reply.calls)) == (text, "", []), name


@pytest.mark.parametrize(
    "end", ["<|eos|>", "<end_of_sentence>", "<|end_of_sentence|>", "<SPECIAL_12>", "</longcat_s>", "<|endofturn|>", "<|EOT|>"]
)
def test_a_person_sees_no_end_token(end: str) -> None:
    for name in ("auto", "hermes", "minimax"):
        assert read(f"Done.{end}", name).content == "Done."
        assert (ran(read(QWEN + end, name)), read(QWEN + end, name).content) == (RM, "")
