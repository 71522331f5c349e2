"""The dialects that local models write, one by one."""

from __future__ import annotations

from typing import Any

import pytest

from agent.protocols import NAMES, find_protocol, protocol_for_model

TOOLS: list[dict[str, Any]] = [
    {"name": "get", "parameters": {"type": "object", "properties": {
        "city": {"type": "string"}, "days": {"type": "integer"}, "tags": {"type": "array"}, "on": {"type": "boolean"},
        "note": {"type": ["string", "null"]}, "opts": {"anyOf": [{"type": "object"}, {"type": "string"}]}}}},
    {"name": "now", "parameters": {"type": "object", "properties": {}}},
]  # fmt: skip
BAR = "\uff5c"


def read(text: str, name: str = "auto", tools: list[dict[str, Any]] = TOOLS, **flags: Any) -> tuple[str, list[Any]]:
    reader = find_protocol(name).reader(tools, **flags)
    reader.feed(text)
    reply = reader.finish()
    return reply.content, [(call.name, call.args) if call.fault is None else call.fault for call in reply.calls]


PARIS = [("get", {"city": "Paris"})]


KIMI = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.get:0<|tool_call_argument_begin|>"
    '{"city": "Paris"}<|tool_call_end|><|tool_calls_section_end|>'
)
DEEPSEEK = ('<|tool▁calls▁begin|><|tool▁call▁begin|>get<|tool▁sep|>{"city": "Paris"}<|tool▁call▁end|><|tool▁calls▁end|>').replace(
    "|", BAR
)
DSML = (
    '<|DSML|function_calls>\n<|DSML|invoke name="get">\n<|DSML|parameter name="city" string="true">Paris</|DSML|parameter>\n'
    "</|DSML|invoke>\n</|DSML|function_calls>"
).replace("|", BAR)
MINIMAX = '<minimax:tool_call><invoke name="get"><parameter name="city">Paris</parameter></invoke></minimax:tool_call>'
NO_END = (
    "<tool_call><function=get><parameter=city>a</function></tool_call>"
    "<tool_call><function=get><parameter=city>b</parameter></function></tool_call>"
)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hermes", '<tool_call>\n{"name": "get", "arguments": {"city": "Paris"}}\n</tool_call>'),
        ("hermes", '<tool_call>[{"name": "get", "arguments": "{\\"city\\": \\"Paris\\"}"}]</tool_call>'),
        ("qwen_xml", "<tool_call>\n<function=get>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>"),
        ("qwen_xml", "<function=get><parameter=city>Paris</parameter></function>"),
        ("qwen_xml", '<function name="get"><param name="city">Paris</param></function>'),
        ("glm", "<tool_call>get\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>"),
        ("kimi", KIMI),
        ("deepseek", DEEPSEEK),
        ("deepseek", DSML),
        ("mistral", '[TOOL_CALLS]get[ARGS]{"city": "Paris"}'),
        ("mistral", '[TOOL_CALLS][{"name": "get", "arguments": {"city": "Paris"}, "id": "abcdefghi"}]'),
        ("harmony", '<|channel|>commentary to=functions.get <|constrain|>json<|message|>{"city": "Paris"}<|call|>'),
        ("pythonic", '[get(city="Paris")]'),
        ("pythonic", "<|tool_call_start|>[get(city='Paris')]<|tool_call_end|>"),
        ("minimax", MINIMAX),
        ("llama_json", '{"name": "get", "parameters": {"city": "Paris"}}'),
        ("gemma", '<|tool_call>call:get{city:<|"|>Paris<|"|>}<tool_call|>'),
        ("granite", '<function_call> {"name": "get", "arguments": {"city": "Paris"}}'),
    ],
)  # fmt: skip
def test_each_dialect_by_its_name_and_by_itself(name: str, text: str) -> None:
    assert read(text, name) == ("", PARIS)
    assert read(text) == ("", PARIS)
    assert name in NAMES


def test_x_9_the_same_tag_holds_three_dialects() -> None:
    for body in (
        '{"name": "get", "arguments": {"city": "Paris"}}',
        "<function=get><parameter=city>Paris</parameter></function>",
        "get<arg_key>city</arg_key><arg_value>Paris</arg_value>",
    ):
        assert read(f"<tool_call>{body}</tool_call>", "hermes") == ("", PARIS)
    assert read("<tool_call>now</tool_call>") == ("", [("now", {})])
    assert isinstance(read("<tool_call>nobody</tool_call>")[1][0], str)


def test_arguments_in_tags_get_the_schema_s_types() -> None:
    def xml(**args: str) -> Any:
        params = "".join(f"<parameter={key}>{value}</parameter>" for key, value in args.items())
        return read(f"<tool_call><function=get>{params}</function></tool_call>")[1][0][1]

    assert xml(city="5", days="5", on="True", tags='["a"]') == {"city": "5", "days": 5, "on": True, "tags": ["a"]}
    assert xml(note="null") == {"note": None}
    assert xml(note="nullable", opts='{"a": 1}', city='{"a": 1}') == {"note": "nullable", "opts": {"a": 1}, "city": '{"a": 1}'}
    assert xml(city="\n  two\n\n") == {"city": "  two\n"}
    assert xml(days="five") == {"days": "five"}  # the schema refuses it, with its own message
    assert xml(unknown="5", other="five") == {"unknown": 5, "other": "five"}


def test_a_tag_inside_an_argument_is_text() -> None:
    text = "Say <tool_call> and </tool_call>, not <function=now></function></tool_call>."
    assert read(f"<tool_call><function=get><parameter=city>{text}</parameter></function></tool_call>")[1] == [
        ("get", {"city": text})
    ]


@pytest.mark.parametrize(
    "text",
    [
        NO_END,
        "<tool_call><function=get><parameter=city>a</parameter><parameter=city>b</parameter></function></tool_call>",
        "<tool_call><function=get><parameter=city>a</parameter>and</function></tool_call>",
        "<tool_call>get<arg_key>city</arg_key><arg_value>a</arg_value><arg_key>days</arg_key></tool_call>",
        "[TOOL_CALLS]get[ARGS]{bad",
        "<|tool_call_start|>[get(city='it's')]<|tool_call_end|>",
        "<|tool_call_start|>[get('Paris')]<|tool_call_end|>",
        "<|tool_call_start|>[get(city=__import__('os'))]<|tool_call_end|>",
        "<|tool_calls_section_begin|><|tool_call_begin|>get{}<|tool_call_end|><|tool_calls_section_end|>",
    ],
)
def test_000_30_what_can_not_be_meant_is_a_fault(text: str) -> None:
    _, calls = read(text)
    assert isinstance(calls[0], str)
    assert ("get", {"city": "a"}) not in calls


def test_one_broken_section_does_not_lose_the_others() -> None:
    text = (
        '<|tool_calls_section_begin|><|tool_call_begin|>functions.get:0<|tool_call_argument_begin|>{"city": "a"<|tool_call_end|>'
        "<|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"
    )
    _, calls = read(text)
    assert isinstance(calls[0], str)
    assert calls[1] == ("now", {})


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "search", "arguments": {"query": "x"}}',
        '{"name": "Bob", "age": 5}',
        "[1, 2, 3]",
        "functools[] is empty",
        'functools[{"name": "Bob"}]',
        'Action:\n```json\n{"key": "value"}\n```',
        "Action:\n```json\n",
        "[see(note) and that]",
        'As in {"name": "get", "arguments": {"city": "Paris"}}.',
        "Use [get(city='Paris')] for it.",
        '[{"name": "Ann"}, {"name": "Bob"}]',
        "if a < b: print([x for x in y]) # </div> <tool> @tool",
    ],
)
def test_what_only_looks_like_a_call_is_an_answer(text: str) -> None:
    assert read(text) == (text.strip(), [])


def test_harmony_messages() -> None:
    text = (
        "<|channel|>analysis<|message|>I should look.<|end|><|start|>assistant<|channel|>commentary<|message|>One moment.<|end|>"
        '<|start|>assistant to=functions.get<|channel|>commentary <|constrain|>json<|message|>{"city": "Paris"}<|call|>'
    )
    reader = find_protocol("harmony").reader(TOOLS)
    events = reader.feed(text)
    reply = reader.finish()
    assert (reply.content, reply.reasoning) == ("One moment.", "I should look.")
    assert [(call.name, call.args) for call in reply.calls] == PARIS
    assert "".join(event.text for event in events if event.kind == "thinking_delta") == "I should look."


def test_python_values() -> None:
    text = "[get(city='a\\'b\\n', days=07, tags=['x', {'y': None}], on=True, from=\"é\"), now()]"
    assert read(text)[1] == [
        ("get", {"city": "a'b\n", "days": 7, "tags": ["x", {"y": None}], "on": True, "from": "é"}),
        ("now", {}),
    ]


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("Qwen3-Coder-30B-A3B", "qwen_xml"), ("qwen2.5:7b", "hermes"), ("zai-org/GLM-4.6", "glm"), ("Kimi-K2", "kimi"),
        ("deepseek-v3.1", "deepseek"), ("Mistral-Small-3.2", "mistral"), ("gpt-oss:20b", "harmony"), ("MiniMax-M2", "minimax"),
        ("gemma-3-27b", "gemma"), ("llama-4-scout", "pythonic"), ("Llama-3.1-8B", "llama_json"), ("granite-4", "granite"),
        ("something-new", "auto"),
    ],
)  # fmt: skip
def test_a_model_s_name_tells_its_dialect(model: str, name: str) -> None:
    assert protocol_for_model(model).name == name


def test_every_dialect_reads_what_its_prompt_asks_for() -> None:
    for name in NAMES:
        protocol = find_protocol(name)
        assert "get" in protocol.render_tools(TOOLS)
        if "<tool_call>" in protocol.render_tools(TOOLS):
            assert read('<tool_call>{"name": "get", "arguments": {"city": "Paris"}}</tool_call>', name) == ("", PARIS), name


def test_minimax_m3_marks_its_tags() -> None:
    text = (
        "^<tool_call>\n"
        '^<invoke name="get">^<city><b>bold</b></invoke>^</city>^<days>3^</days>^<opts>^<a>1^</a>^</opts>^</invoke>\n'
        "^</tool_call>"
    ).replace("^", "]<]minimax[>[")
    assert read(text)[1] == [("get", {"city": "<b>bold</b></invoke>", "days": 3, "opts": {"a": 1}})]
    assert isinstance(read(text.replace("3]<]minimax[>[</days>", "3</days>"))[1][0], str)
