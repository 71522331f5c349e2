"""Calls in slightly odd forms: clear ones are read, others reported to the model. None is lost, and none is read wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.protocols import NAMES, find_protocol
from toolcrib.contract.session import ParsedReply

TOOLS: list[dict[str, Any]] = [
    {"name": "get", "parameters": {"type": "object", "properties": {
        "city": {"type": "string"}, "amount": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}}}},
    {"name": "write", "parameters": {"type": "object", "properties": {
        "path": {"type": "string"}, "content": {"type": "string"}}}},
    {"name": "now", "parameters": {"type": "object", "properties": {}}},
]  # fmt: skip
BAR = "\uff5c"
PARIS = [("get", {"city": "Paris"})]
BOTH = [*PARIS, ("now", {})]
JSON = '{"name": "get", "arguments": {"city": "Paris"}}'
NOW = '{"name": "now", "arguments": {}}'
KIMI = '<|tool_call_begin|>functions.get:0<|tool_call_argument_begin|>{"city": "Paris"}<|tool_call_end|>'
INVOKE = '<invoke name="get"><parameter name="city">Paris</parameter></invoke>'
DSML = '<|DSML|invoke name="get"><|DSML|parameter name="city" string="true">Paris</|DSML|parameter></|DSML|invoke>'
M3 = "]<]minimax[>["


def read(text: str, name: str = "auto", *, thinking: Any = "closed", truncated: bool = False) -> ParsedReply:
    """Return the reply, which is the same in one piece and by characters."""
    replies = []
    for pieces in ([text], list(text)):
        reader = find_protocol(name).reader(TOOLS, thinking=thinking)
        events = [event for piece in pieces for event in reader.feed(piece)]
        reply = reader.finish(truncated=truncated)
        shown = "".join(event.text for event in (*events, *reply.events) if event.kind == "assistant_delta")
        assert shown == reply.content
        replies.append(reply)
    assert calls_of(replies[0]) == calls_of(replies[1])
    assert replies[0].content == replies[1].content
    return replies[0]


def calls_of(reply: ParsedReply) -> list[Any]:
    return [(call.name, call.args) if call.fault is None else None for call in reply.calls]


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (
            "<tool_call>\n<function=get>\n<parameter=city>\nDallas\n<parameter=amount>\n3\n</parameter>\n</function>\n</tool_call>",
            [("get", {"city": "Dallas", "amount": 3})],
        ),
        (
            (
                '<minimax:tool_call><invoke name="get"><parameter name="city">Dallas<parameter name="amount">3</parameter>'
                "</invoke></minimax:tool_call>"
            ),
            [("get", {"city": "Dallas", "amount": 3})],
        ),
        (
            (
                "<tool_call>get\n<arg_key>city</arg_key>\n<arg_value>Dallas\n<arg_key>amount</arg_key>\n<arg_value>3</arg_value>\n"
                "</tool_call>"
            ),
            [("get", {"city": "Dallas", "amount": 3})],
        ),
        (
            (
                "<tool_call><function=write><parameter=path>a.xml</parameter><parameter=content><parameter=x>1</parameter>"
                "</parameter></function></tool_call>"
            ),
            [None],
        ),
        (
            "<tool_call><function=get><parameter=city>Dallas<parameter=state>TX</parameter></function></tool_call>",
            [None],
        ),
        (
            "<tool_call>get<arg_key>city</arg_key><arg_value>Dallas<arg_key>state</arg_key><arg_value>TX</arg_value></tool_call>",
            [None],
        ),
        (
            "<tool_call>get<arg_key>city<arg_value>Dallas</arg_value><arg_key>amount</arg_key><arg_value>3</arg_value></tool_call>",
            [None],
        ),
        (
            (
                f'{M3}<tool_call>{M3}<invoke name="get">{M3}<tags>{M3}<item>a{M3}</item>{M3}<item>b{M3}</item>{M3}</tags>'
                f"{M3}</invoke>{M3}</tool_call>"
            ),
            [("get", {"tags": ["a", "b"]})],
        ),
        (
            f'{M3}<tool_call>{M3}<invoke name="get">{M3}<tags>{M3}<item>a{M3}</item>and{M3}</tags>{M3}</invoke>{M3}</tool_call>',
            [None],
        ),
        (
            f'{M3}<tool_call>{M3}<invoke name="get">{M3}<tags>{M3}<item>a{M3}</tags>{M3}</invoke>{M3}</tool_call>',
            [None],
        ),
        (
            (
                '<minimax:tool_call><invoke name="get"><parameter name="tags"><item>a</item>\n<item>b</item></parameter></invoke>'
                "</minimax:tool_call>"
            ),
            [("get", {"tags": ["a", "b"]})],
        ),
        ('<tool_call>{"name": "get", "city": "Paris"}</tool_call>', [None]),
        (
            '<tool_call>{"name": "get", "parameters": {"type": "object", "properties": {"city": {"type": "x"}}}}</tool_call>',
            [None],
        ),
    ],
)
def test_no_argument_swallows_another(text: str, calls: list[Any]) -> None:
    assert calls_of(read(text)) == calls


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "text",
    [
        f" to=user<|message|>Write <tool_call>{JSON}</tool_call> for it.<|eot|>",
        f" to=user<|message|>{JSON}<|eot|>",
        f"<|channel|>final<|message|>Write <tool_call>{JSON}</tool_call> for it.<|return|>",
        f"<|channel|>commentary<|message|>As <tool_call>{JSON}</tool_call> says.<|end|>",
        f'<|start|>assistant to=user<|message|>[get(city="Paris")] or {KIMI}<|eot|>',
    ],
)
def test_a_call_quoted_to_the_person_does_not_run(text: str, name: str) -> None:
    if name == "json_object":
        return  # it accepts only one JSON object
    reply = read(text, name)
    assert list(reply.calls) == []
    assert reply.content == text.partition("<|message|>")[2].rpartition("<|")[0]


@pytest.mark.parametrize(
    "text",
    [
        ' to=functions.get<|channel|>analysis<|message|>{"city": "Paris"}<|call|>',
        ' to=functions.get<|channel|>commentary json<|message|>{"city": "Paris"}<|call|>',
        '<|start|>assistant to=functions.get<|channel|>analysis<|message|>{"city": "Paris"}<|call|>',
        '<|channel|>analysis to=functions.get <|constrain|>json<|message|>{"city": "Paris"}',
        ' to=get<|message|>{"city": "Paris"}<|eot|>',
    ],
)
def test_a_message_to_a_tool_is_a_call_in_any_channel(text: str) -> None:
    assert calls_of(read(text)) == PARIS
    assert read(text).content == ""


def test_a_header_that_is_cut_off_is_told() -> None:
    assert calls_of(read('<|channel|>commentary to=functions.get <|constrain|>json{"city": "Paris"}')) == [None]
    assert read("to=5 is not a header").content == "to=5 is not a header"


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (KIMI, PARIS),
        (f"I look.{KIMI}<|tool_calls_section_end|>", PARIS),
        (KIMI + KIMI.replace("get:0", "now:1").replace('"city": "Paris"', ""), BOTH),
        (KIMI.removesuffix("<|tool_call_end|>"), PARIS),
        (DSML.replace("|", BAR), PARIS),
        (f"<|DSML|function_calls>{DSML}</|DSML|function_calls>", PARIS),
        (INVOKE, PARIS),
        (INVOKE.replace("<", "<atem:").replace("<atem:/", "</atem:"), PARIS),
        (f"```json\n[{JSON}, {NOW}]\n```", BOTH),
        (f"```json\n{JSON}\n```", PARIS),
        (f"```\n<tool_call>{JSON}</tool_call>\n```", PARIS),
        (f"```json\n{JSON}\n```\n\n```json\n{NOW}\n```", BOTH),
        ('```tool_code\nget(city="Paris")\n```', PARIS),
        ('[TOOL_CALLS]get[ARGS]{"city": "Paris"}now[ARGS]{}', BOTH),
        ('[TOOL_CALLS]get[ARGS]{"city": "Paris"}, now[CALL_ID]abcdefghi[ARGS]{}</s>', BOTH),
        ('[TOOL_CALLS]get[ARGS]{"city": "Paris"}[TOOL_CALLS]now[ARGS]{}', BOTH),
        ('<|tool▁calls▁begin|><|tool▁call▁begin|>get<|tool▁sep|>{"city": "Paris"}<|tool▁call▁end|><|tool▁calls▁end|>', PARIS),
        ('<|tool_calls_begin|><|tool_call_begin|>get<|tool_sep|>{"city": "Paris"}<|tool_call_end|><|tool_calls_end|>', PARIS),
        ('<|tool_call_begin|>function<|tool_sep|>get\n```json\n{"city": "Paris"}\n```<|tool_call_end|>'.replace("|", BAR), PARIS),
        ('get\n{"city": "Paris"}', PARIS),
        ('>>>get\n{"city": "Paris"}\n>>>now\n{}', BOTH),
        (f"I look.\nfunctools[{JSON}]", PARIS),
        ('  @tool get {"city": "Paris"}', PARIS),
        ('I look.\n\t@tool get {"city": "Paris"}\nSo.', PARIS),
        ('<function=get>{"city": "Paris"}</function>', PARIS),
        ('<tool_call><function=get>\n{"city": "Paris"}\n</function></tool_call>', PARIS),
        ('<|tool_call>call:get{city:<|"|>Paris<|"|>}call:now{}<tool_call|>', BOTH),
        ('<|tool_call>call:get{city:<|"|>Paris<|"|>}\ncall:now{}<tool_call|>', BOTH),
        ("<start_function_call>call:get{city:<escape>Paris<escape>}<end_function_call>", PARIS),
        (f"<|tool_call|>[{JSON}] I wait.", PARIS),
        (f"<tool_call>\n```json\n{JSON}\n```\n</tool_call>", PARIS),
        (f"<tool_call><![CDATA[{JSON}]]></tool_call>", PARIS),
        ("<tool_call><function=get><parameter=city><![CDATA[Paris]]></parameter></function></tool_call>", PARIS),
        ((f"<{BAR}tool_calls_begin{BAR}><{BAR}tool_call_begin{BAR}>function<{BAR}tool_sep{BAR}>"
         f'<steptml:invoke name="get"><steptml:parameter name="city">Paris</steptml:parameter></steptml:invoke>'
         f"<{BAR}tool_call_end{BAR}><{BAR}tool_calls_end{BAR}>"), PARIS),
        (f"<tool_call>{JSON}", PARIS),
        (f"<tool_call>{JSON}<tool_call>{NOW}", BOTH),
        ("<tool_call>\n<function=get>\n<parameter=city>\nParis\n</parameter>\n</function>", PARIS),
        ("<tool_call>\n<function=get>\n<parameter=city>\nParis\n</parameter>\n</tool_call>", PARIS),
        ("<|tool_call_start|>[get(city='Paris')]", PARIS),
        ('<|tool_call>call:get{city:<|"|>Paris<|"|>}', PARIS),
        (f"I look.<|python_tag|>{JSON}; {NOW}<|eom_id|>", BOTH),
        ('Plan: I look.\nAction: ```json\n[{"tool_name": "get", "parameters": {"city": "Paris"}}]\n```', PARIS),
        ('Action: ```json\r\n[{"tool_name": "get", "parameters": {"city": "Paris"}}]\r\n```', PARIS),
        ('I look.\n```tool_code\nprint(get(city="Paris"))\n```\n', PARIS),
        ('I look.\r\n```tool_code\r\nget(city="Paris")\r\n```', PARIS),
        ('```tool_code\nprint(get(city="Paris"))\nprint(now())\n```', BOTH),
        ('{"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": ' + JSON + '}]}', PARIS),
        ('>>>all\nI look.\n>>>get\n{"city": "Paris"}\n>>>now\n{}', BOTH),
        ('>>>all\r\n>>>get\r\n{"city": "Paris"}', PARIS),
        ('get\r\n{"city": "Paris"}', PARIS),
        ('@get {"city": "Paris"}\n@now {}', BOTH),
        ('[get(city="Paris", amount=+3)]', [("get", {"city": "Paris", "amount": 3})]),
        (f"<tool_calls><tool_call>{JSON}</tool_call><tool_call>{NOW}</tool_call></tool_calls>", BOTH),
    ],
)  # fmt: skip
def test_a_clear_call_runs(text: str, calls: list[Any]) -> None:
    reply = read(text)
    assert calls_of(reply) == calls
    assert list(reply.faults) == []
    assert not set(reply.content) & set("<{[|")


def test_cdata_holds_any_tag() -> None:
    code = "a</parameter></function></tool_call><parameter=path>"
    text = f"<tool_call><function=write><parameter=content><![CDATA[{code}]]></parameter></function></tool_call>"
    assert calls_of(read(text)) == [("write", {"content": code})]


@pytest.mark.parametrize(
    "text",
    [
        f"<think>I look.{KIMI}",
        f"<think>I look.<|tool_calls_section_begin|>{KIMI}<|tool_calls_section_end|>",
        f"<think>I look. <tool_call>{JSON}</tool_call>",
        f"I do {JSON} and then {NOW} and that is all.",
        f"{JSON}\nand then\n{NOW}",
        f"I look:\n{JSON}",
        f"I look.\n\n```json\n[{JSON}]\n```",
        f"I look:\n```\n<tool_call>{JSON}</tool_call>\n```",
        'I look.\n[get(city="Paris")]',
        'get\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>',
        '<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>',
        'functions.get:0<|tool_call_argument_begin|>{"city": "Paris"}<|tool_call_end|>',
        'get[ARGS]{"city": "Paris"}',
        'I look.>>>get\n{"city": "Paris"}',
        "<tool_call>get",
        "<tool_call>get\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>",
        "<tool_call>\n<function=get>\n<parameter=city>\nParis\n</parameter>",
        "<tool_call><function=get>",
        "<|python_tag|>import os",
        "<|tool_call_begin|>get",
        '>>>get\n{"city": "Paris"',
        '```tool_code\nget(city="Paris")\n```\n\nI wait for it.',
        'Action: ```json\n[{"tool_name": "get", "parameters": {"city": "Paris"}}]\n```\nis the form.',
        'I look.\n{"action": {"tool": "get", "args": {"city": "Paris"}}}',
        '```json\n{"thought": "so", "action": {"tool": "get", "args": {"city": "Paris"}}}\n```',
    ],
)  # fmt: skip
def test_what_is_not_clear_is_told_and_does_not_run(text: str) -> None:
    reply = read(text)
    assert None in calls_of(reply)
    assert [call for call in calls_of(reply) if call not in (None, *PARIS)] == []
    assert reply.faults


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("json_object", "mistral", "auto")])
def test_the_marks_of_another_dialect_are_told(name: str) -> None:
    assert calls_of(read('I look.[TOOL_CALLS]get[ARGS]{"city": "Paris"}', name)) == [None]


@pytest.mark.parametrize(
    "text",
    [
        f"Write it like this:\n\n```\n<tool_call>{JSON}</tool_call>\n```\n\nThen wait.",
        f"```json\n{JSON}\n```\nThat is how a call looks.",
        f"Write `<tool_call>{JSON}</tool_call>` and wait.",
        f"The user wrote \"<tool_call>{JSON}</tool_call>\" before.",
        f"> <tool_call>{JSON}</tool_call>\n\nYou wrote that.",
        f"A call such as {JSON} is an object.",
        "In HTML, <s>old</s> is struck out, and `</s>` ends it.",
        "`<|im_end|>` ends a turn, `[/TOOL_CALLS]` too.",
        "```xml\n<function=get><parameter=city>Paris</parameter></function>\n```\nThat is Qwen's.",
        '```python\nget(city="Paris")\n```',
        '```json\n{"name": "Ann", "arguments": {}}\n```',
        '```json\n{"name": "get"}\n```\nis a tool.',
        "<invoke name=x> is no tag of ours.",
        'The tools: {"name": "get", "description": "Weather."} and {"name": "now", "description": "The time."}',
        'Mail @tool or write "@tool get {}" in prose.',
        "~~~\n[TOOL_CALLS]get[ARGS]{}\n~~~\nis Mistral's.",
        "b[0] = {1} is code.",
        "It's `a` and it's `b`; <b>bold</b> &lt;tool_call&gt;.",
        "functools[0] is an index.",
        "if x < y then [get] else {now}",
    ],
)  # fmt: skip
def test_text_about_calls_is_text(text: str) -> None:
    for name in ("auto", "hermes", "qwen_xml", "tags", "mistral", "minimax"):
        reply = read(text, name)
        assert (reply.content, calls_of(reply)) == (text, []), name


@pytest.mark.parametrize(
    "end",
    [
        "[/TOOL_CALLS]", "</tool_call>", "</s>", "<|role_end|>", "<|im_end|>", "<|eot_id|>", "<end_of_turn>",
        f"<{BAR}end▁of▁sentence{BAR}>", "<|tool_calls_section_end|>", "</tool_call></s>\n",
    ],
)  # fmt: skip
def test_end_tokens_reach_nobody(end: str) -> None:
    assert read(f"Done.{end}").content == "Done."
    reply = read(f"<tool_call>{JSON}</tool_call>{end}")
    assert (reply.content, calls_of(reply), list(reply.faults)) == ("", PARIS, [])


def test_text_that_was_shown_is_never_thinking() -> None:
    """000-19: text that may prove to be thinking is held back; shown text stays, and its calls do not run."""
    text = f"Perhaps <tool_call>{JSON}</tool_call></think>Done."
    for thinking, content in (("maybe", "Done."), ("unlikely", "Perhaps Done.")):
        reader = find_protocol("auto").reader(TOOLS, thinking=thinking)  # type: ignore[arg-type]  # two of its values
        events = [event for piece in text for event in reader.feed(piece)]
        reply = reader.finish()
        shown = "".join(event.text for event in (*events, *reply.events) if event.kind == "assistant_delta")
        assert (shown, reply.content, list(reply.calls)) == (content, content, [])
        assert "so it was not run" in reply.faults[0]
    assert read("Hello.", thinking="maybe").next_thinking == "unlikely"
    for other in ("so</think>Hello.", "<think>so</think>Hello.", ""):
        assert read(other, thinking="maybe").next_thinking == "maybe"


@pytest.mark.parametrize("name", ["hermes", "tags", "glm"])
def test_a_line_of_the_chat_is_told_where_it_is_no_call(name: str) -> None:
    assert calls_of(read('I look.\n@get {"city": "Paris"}', name)) == [None]
    for text in ('Mail @get {"city": "Paris"} to me.', "@bob hello", "@media {color: red}", "@get is a tool."):
        assert (read(text, name).content, calls_of(read(text, name))) == (text, [])
        assert calls_of(read(text, "command")) == []


END = "<|tool\u2581call\u2581end|><|tool\u2581calls\u2581end|>".replace("|", BAR)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('<function=write>{"path": "a", "content": ^}</function>', "a </function> b"),
        ('I look.\n<function=write>\n{"path": "a", "content": ^}\n</function>', "a </function>\n</tool_call> b"),
        ("<function_calls>\nwrite(path='a', content=^)\n</function_calls>", "a </function_calls> b"),
        ('```tool_code\nwrite(path="a", content=^)\n```', "a\n```python\nb\n```\n"),
        (
            (
                f"<{BAR}tool\u2581calls\u2581begin{BAR}><{BAR}tool\u2581call\u2581begin{BAR}>write<{BAR}tool\u2581sep{BAR}>"
                f'{{"path": "a", "content": ^}}{END}'
            ),
            f"a {END} b",
        ),
        (
            (
                "<|tool_calls_section_begin|><|tool_call_begin|>functions.write:0<|tool_call_argument_begin|>"
                '{"path": "a", "content": ^}<|tool_call_end|><|tool_calls_section_end|>'
            ),
            "a <|tool_call_end|><|tool_calls_section_end|><|tool_call_begin|> b",
        ),
    ],
)
def test_the_end_of_a_format_in_a_string_is_text(text: str, value: str) -> None:
    for name in ("auto", "llama_json", "deepseek", "kimi", "pythonic", "gemma"):
        written = text.replace("^", json.dumps(value, ensure_ascii=False))
        if name == "auto" or read(written, name).content == "":
            assert calls_of(read(written, name)) == [("write", {"path": "a", "content": value})]


@pytest.mark.parametrize("text", ["[now(), frob()]", "[frob(), now()]", "Let me see:\n[now(), frob()]"])
def test_a_known_call_beside_an_unknown_one_is_told(text: str) -> None:
    reply = read(text)
    assert calls_of(reply) in ([], [None])
    assert "now()" in str(reply.faults)
    assert not read("[frob()] is a list of one.").faults
