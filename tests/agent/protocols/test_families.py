"""Replies in the forms of the model families, each with every small deviation of real models."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pytest

from agent.protocols import find_protocol
from agent.protocols._made import CUT_REPLY

Call: TypeAlias = tuple[str, dict[str, Any]]
Frame: TypeAlias = Callable[[Sequence[Call]], str]

TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "get_weather", "description": "Weather.", "parameters": {
        "type": "object", "required": ["city"], "properties": {
            "city": {"type": "string"}, "days": {"type": "integer"}, "metric": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}}, "opts": {"type": "object"}}}}},
    {"type": "function", "function": {"name": "write_file", "description": "Write.", "parameters": {
        "type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}}}},
    {"type": "function", "function": {"name": "now", "description": "Time.", "parameters": {"type": "object", "properties": {}}}},
]  # fmt: skip
BAR = "\uff5c"


# -- the families ----------------------------------------------------------------------------------------------------------


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def spelled(name: str, args: Mapping[str, Any], key: str = "arguments") -> str:
    return dump({"name": name, key: args})


def bare(value: Any) -> str:
    return value if isinstance(value, str) else dump(value)


def each(before: str, one: Callable[[str, dict[str, Any]], str], after: str = "", between: str = "") -> Frame:
    return lambda calls: before + between.join(one(name, args) for name, args in calls) + after


def listed(before: str, after: str = "", key: str = "arguments") -> Frame:
    return lambda calls: before + dump([{"name": name, key: args} for name, args in calls]) + after


def xml(call: str, end: str, param: str, param_end: str, line: str = "\n") -> Callable[[str, dict[str, Any]], str]:
    def one(name: str, args: dict[str, Any]) -> str:
        inner = "".join(f"{param.format(key)}{line}{bare(value)}{line}{param_end}\n" for key, value in args.items())
        return f"{call.format(name)}\n{inner}{end}"

    return one


def arg_keys(name: str, args: dict[str, Any], line: str = "\n", tag: str = "") -> str:
    pairs = "".join(
        f"{line}<{tag}arg_key>{key}</{tag}arg_key>{line}<{tag}arg_value>{bare(value)}</{tag}arg_value>"
        for key, value in args.items()
    )
    return f"<{tag}tool_call>{name}{pairs}{line}</{tag}tool_call>"


def suffixed(name: str, args: dict[str, Any], end: str) -> str:
    pairs = "".join(
        f"\n<arg_key:{end}>{key}</arg_key:{end}>\n<arg_value:{end}>{bare(value)}</arg_value:{end}>" for key, value in args.items()
    )
    return f"<tool_call:{end}>{name}<tool_sep:{end}>{pairs}\n</tool_call:{end}>"


def typed_keys(name: str, args: dict[str, Any]) -> str:
    kinds = {str: "string", int: "integer", bool: "boolean", list: "array", dict: "object"}
    pairs = "".join(
        f"<ifm|arg_key>{key}</ifm|arg_key><ifm|arg_type>{kinds[type(value)]}</ifm|arg_type><ifm|arg_value>{bare(value)}</ifm|arg_value>"
        for key, value in args.items()
    )
    return f"<ifm|tool_call>{name}{pairs}</ifm|tool_call>"


def python(name: str, args: dict[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in args.items())})"


def gemma(value: Any, quote: str) -> str:
    if isinstance(value, str):
        return f"{quote}{value}{quote}"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{gemma(inner, quote)}" for key, inner in value.items()) + "}"
    return "[" + ",".join(gemma(inner, quote) for inner in value) + "]" if isinstance(value, list) else dump(value)


def m3(value: Any) -> str:
    mark = "]<]minimax[>["
    if isinstance(value, dict):
        return "".join(f"{mark}<{key}>{m3(inner)}{mark}</{key}>" for key, inner in value.items())
    return "".join(f"{mark}<item>{m3(inner)}{mark}</item>" for inner in value) if isinstance(value, list) else bare(value)


def dsml(bar: str, gap: str = "") -> Callable[[str, dict[str, Any]], str]:
    def one(name: str, args: dict[str, Any]) -> str:
        tag = f"{bar}DSML{bar}{gap}"
        inner = "".join(
            f'<{tag}parameter name="{key}" string="{str(isinstance(value, str)).lower()}">{bare(value)}</{tag}parameter>\n'
            for key, value in args.items()
        )
        return f'<{tag}invoke name="{name}">\n{inner}</{tag}invoke>\n'

    return one


def wide(text: str) -> str:
    return text.replace("|", BAR).replace("_", "\u2581")


QWEN = xml("<function={}>", "</function>", "<parameter={}>", "</parameter>")
INVOKE = xml('<invoke name="{}">', "</invoke>", '<parameter name="{}">', "</parameter>", "")
SECTIONS = wide("<|tool_calls_begin|>"), wide("<|tool_calls_end|>"), wide("<|tool_call_begin|>"), wide("<|tool_call_end|>")
SEP = wide("<|tool_sep|>")
M3 = "]<]minimax[>["

FAMILIES: dict[str, Frame] = {
    "hermes": each("", lambda name, args: f"<tool_call>\n{spelled(name, args)}\n</tool_call>", between="\n"),
    "qwen3-coder": each("", lambda name, args: f"<tool_call>\n{QWEN(name, args)}\n</tool_call>", between="\n"),
    "qwen3-coder without tool_call": each("", QWEN, between="\n"),
    "glm-4.5": each("", arg_keys, between="\n"),
    "glm-4.7": each("", lambda name, args: arg_keys(name, args, "")),
    "longcat": each("", lambda name, args: arg_keys(name, args, tag="longcat_")),
    "llama-3.1": each("", lambda name, args: spelled(name, args, "parameters"), between="; "),
    "llama-3.1 with tag": each("<|python_tag|>", lambda name, args: spelled(name, args, "parameters"), between="; "),
    "llama-4": each("[", python, "]", ", "),
    "llama-4 with tags": each("<|python_start|>[", python, "]<|python_end|>", ", "),
    "lfm2": each("<|tool_call_start|>[", python, "]<|tool_call_end|>", ", "),
    "olmo-3": each("<function_calls>\n", python, "\n</function_calls>", "\n"),
    "mistral v3": listed("[TOOL_CALLS] "),
    "mistral v11": each("", lambda name, args: f"[TOOL_CALLS]{name}[CALL_ID]a1B2c3D4e[ARGS]{dump(args)}"),
    "mistral v13": each("", lambda name, args: f"[TOOL_CALLS]{name}[ARGS]{dump(args)}"),
    "mistral v13, one token": each("[TOOL_CALLS]", lambda name, args: f"{name}[ARGS]{dump(args)}"),
    "deepseek-r1": each(
        SECTIONS[0], lambda n, a: f"{SECTIONS[2]}function{SEP}{n}\n```json\n{dump(a)}\n```{SECTIONS[3]}", SECTIONS[1], "\n"
    ),
    "deepseek-v3.1": each(SECTIONS[0], lambda n, a: f"{SECTIONS[2]}{n}{SEP}{dump(a)}{SECTIONS[3]}", SECTIONS[1]),
    "deepseek-v3.1 in ascii": each(
        "<|tool_calls_begin|>", lambda n, a: f"<|tool_call_begin|>{n}<|tool_sep|>{dump(a)}<|tool_call_end|>", "<|tool_calls_end|>"
    ),
    "deepseek-v3.2": each(f"<{BAR}DSML{BAR}function_calls>\n", dsml(BAR), f"</{BAR}DSML{BAR}function_calls>"),
    "deepseek-v3.2 in ascii": each("<|DSML|function_calls>\n", dsml("|"), "</|DSML|function_calls>"),
    "deepseek-v3.2 bare": each("", dsml(BAR)),
    "kimi-k2": each(
        "<|tool_calls_section_begin|>",
        lambda n, a: f"<|tool_call_begin|>functions.{n}:0<|tool_call_argument_begin|>{dump(a)}<|tool_call_end|>",
        "<|tool_calls_section_end|>",
    ),
    "kimi-k2 without section": each(
        "", lambda n, a: f"<|tool_call_begin|> functions.{n}:0 <|tool_call_argument_begin|> {dump(a)} <|tool_call_end|>"
    ),
    "minimax-m1": each("<tool_calls>\n", spelled, "\n</tool_calls>", "\n"),
    "minimax-m2": each("<minimax:tool_call>\n", INVOKE, "\n</minimax:tool_call>", "\n"),
    "minimax-m2 bare": each("", INVOKE, between="\n"),
    "minimax-m3": each(
        f"{M3}<tool_call>\n", lambda n, a: f'{M3}<invoke name="{n}">{m3(a)}{M3}</invoke>\n', f"{M3}</tool_call>"
    ),
    "gpt-oss": each(
        "", lambda n, a: f"<|channel|>commentary to=functions.{n} <|constrain|>json<|message|>{dump(a)}<|call|>", between=""
    ),
    "gpt-oss, recipient first": each(
        "", lambda n, a: f"<|start|>assistant to=functions.{n}<|channel|>commentary json<|message|>{dump(a)}<|call|>"
    ),
    "functionary-3.2": each("", lambda n, a: f">>>{n}\n{dump(a)}"),
    "functionary-3.1": each("", lambda n, a: f"<function={n}>{dump(a)}</function>"),
    "phi-4-mini": listed("functools"),
    "phi-4-mini with tags": listed("<|tool_call|>", "<|/tool_call|>"),
    "granite-3": listed("<|tool_call|>"),
    "granite-20b": each("", lambda n, a: f"<function_call> {spelled(n, a)}", between=" "),
    "command-r7b": lambda calls: "<|START_ACTION|>" + dump(
        [{"tool_call_id": "0", "tool_name": name, "parameters": args} for name, args in calls]
    ) + "<|END_ACTION|>",
    "functiongemma": each(
        "", lambda n, a: f"<start_function_call>call:{n}{gemma(a, '<escape>')}<end_function_call>"
    ),
    "gemma-4": each("", lambda n, a: f'<|tool_call>call:{n}{gemma(a, _GEMMA_QUOTE)}<tool_call|>'),
    "gemma-4, one block": each("<|tool_call>", lambda n, a: f'call:{n}{gemma(a, _GEMMA_QUOTE)}', "<tool_call|>"),
    "step-3": each(
        f"<{BAR}tool_calls_begin{BAR}>",
        lambda n, a: f"<{BAR}tool_call_begin{BAR}>function<{BAR}tool_sep{BAR}>" + xml(
            '<steptml:invoke name="{}">', "</steptml:invoke>", '<steptml:parameter name="{}">', "</steptml:parameter>", ""
        )(n, a) + f"<{BAR}tool_call_end{BAR}>",
        f"<{BAR}tool_calls_end{BAR}>",
        "\n",
    ),
    "seed-oss": each("", lambda n, a: f"<seed:tool_call>\n{QWEN(n, a)}\n</seed:tool_call>", between="\n"),
    "ernie-4.5": each("\n\n", lambda n, a: f"<tool_call>\n{dump({'name': n, 'arguments': a})}\n</tool_call>\n", between="\n"),
    "hunyuan": listed("<tool_calls>", "</tool_calls>"),
    "hunyuan-2": each(
        "<tool_calls>\n", lambda n, a: f"<tool_call>{n}<tool_sep>\n```json\n{dump(a)}\n```\n</tool_call>", "\n</tool_calls>", "\n"
    ),
    "xlam": listed(""),
    "xlam in a code block": listed("```json\n", "\n```"),
    "jamba": listed(" <tool_calls>", "</tool_calls>"),
    "internlm": each(
        "", lambda n, a: f"<|action_start|><|plugin|>\n{spelled(n, a, 'parameters')}<|action_end|>", between="\n"
    ),
    "apertus": lambda calls: "<|tools_prefix|>" + dump([{name: args} for name, args in calls]) + "<|tools_suffix|>",
    "muse": each("<atem:function_calls>", xml(
        '<atem:invoke name="{}">', "</atem:invoke>", '<atem:parameter name="{}">', "</atem:parameter>", ""
    ), "</atem:function_calls>"),
    "muse in messages": each("", lambda n, a: f"<|start|>assistant to={n}<|message|><atem:function_calls>" + xml(
        '<atem:invoke name="{}">', "</atem:invoke>", '<atem:parameter name="{}">', "</atem:parameter>", ""
    )(n, a) + "</atem:function_calls><|eom|>"),
    "beam": each("", lambda n, a: f"<|start|>assistant to={n}<|channel|>analysis <|constrain|>xml<|message|>" + "".join(
        f'<rfl:parameter name="{key}">\n{bare(value)}\n</rfl:parameter>' for key, value in a.items()
    ) + "<|call|>"),
    "deepseek-v4.1": each(f"<{BAR}DSML{BAR} calls>\n", dsml(BAR, " "), f"</{BAR}DSML{BAR} calls>"),
    "hunyuan-4": each("<tool_calls:ab12>", lambda n, a: suffixed(n, a, "ab12"), "</tool_calls:ab12>"),
    "hunyuan-3, one call each": each("", lambda n, a: suffixed(n, a, "opensource"), between="\n"),
    "k2-horizon": each("<ifm|tool_calls>", typed_keys, "</ifm|tool_calls>"),
    "iquest": each("", lambda n, a: arg_keys(n, a, "").replace("tool_call>", "iquest_tool_call>")),
    "plamo-3": each(
        "<|plamo:begin_tool_requests:plamo|>",
        lambda n, a: f"<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>{n}<|plamo:end_tool_name:plamo|>"
        f"<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>{dump(a)}<|plamo:end_tool_arguments:plamo|>"
        "<|plamo:end_tool_request:plamo|>",
        "<|plamo:end_tool_requests:plamo|>",
    ),
    "inkling": each(
        "", lambda n, a: f"<|message_model|>{n}<|content_invoke_tool_json|>{spelled(n, a, 'args')}<|end_message|>"
    ),
    "solar-open": each(
        "<|tool_calls|>",
        lambda n, a: f"<|tool_call:begin|>a1b2<|tool_call:name|>{n}<|tool_call:args|>{dump(a)}<|tool_call:end|>",
        "<|calls|>",
    ),
    "intern-s1": each("", lambda n, a: f"<|action_start|> <|plugin|>\n{spelled(n, a, 'parameters')}<|action_end|>", between="\n"),
    "gigachat-3": each("", lambda n, a: f"function call<|role_sep|>\n{spelled(n, a)}", between="\n"),
    "kimi-k3": each("<|open|>tools<|sep|>", lambda n, a: f'<|open|>call tool="{n}" index="1"<|sep|>' + "".join(
        f'<|open|>argument key="{key}" type="{"string" if isinstance(value, str) else "object"}"<|sep|>{bare(value)}'
        "<|close|>argument<|sep|>" for key, value in a.items()
    ) + "<|close|>call<|sep|>", "<|close|>tools<|sep|>"),
    "nemotron": listed("<TOOLCALL>", "</TOOLCALL>"),
    "dots": each("<dots_function_call>", INVOKE, "</dots_function_call>", "\n"),
    "gigachat": each("", lambda n, a: f"<|function_call|>{spelled(n, a)}"),
    "minicpm-5": each("", xml('<function name="{}">', "</function>", '<param name="{}">', "</param>", ""), between="\n"),
    "command": each("", lambda n, a: f"@tool {n} {dump(a)}", between="\n"),
}  # fmt: skip
_GEMMA_QUOTE = '<|"|>'
AT_START = ("llama-3.1", "llama-4", "xlam", "xlam in a code block", "functionary-3.2")
"""Families whose calls have no tags: they count as calls only at the start of a reply."""


NO_OTHER_END = ("command",)
"""Families whose calls are only complete with their end token: at the end of a finished reply they are calls."""


# -- the deviations --------------------------------------------------------------------------------------------------------

PARIS: Call = ("get_weather", {"city": "Paris"})
MUCH: Call = (
    "get_weather",
    {"city": "\u6771\u4eac \U0001f5fc", "days": 3, "metric": True, "tags": ["a", "b c"], "opts": {"x": {"y": "z"}}},
)
CODE: Call = ("write_file", {"path": "a b.py", "content": 'if a < b and c > d:\n    print("hi, {x}")\n\n# done: [1]\n'})
NOW: Call = ("now", {})
CASES: dict[str, Sequence[Call]] = {"one": [PARIS], "two": [PARIS, ("get_weather", {"city": "Rome", "days": 2})], "much": [MUCH],
                                    "code": [CODE], "none and one": [NOW, PARIS]}  # fmt: skip


def read(text: str, *, truncated: bool = False, cut: int = 0, thinking: Any = "maybe") -> tuple[str, list[Any], list[str]]:
    """Return the content, the whole calls (of a cut-off reply, none of them runs) or their faults, and all faults."""
    reader = find_protocol("auto").reader(TOOLS, thinking=thinking)
    for at in range(0, len(text), cut or len(text) or 1):
        reader.feed(text[at : at + (cut or len(text))])
    reply = reader.finish(truncated=truncated)
    assert not truncated or all(call.fault is not None for call in reply.calls)
    return (
        reply.content,
        [(call.name, call.args) if call.fault in (None, CUT_REPLY) else call.fault for call in reply.calls],
        list(reply.faults),
    )


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("case", CASES)
def test_its_calls_are_read(family: str, case: str) -> None:
    calls = list(CASES[case])
    text = FAMILIES[family](calls)
    for around in ("{}", "\n\n{}\n", "<think>\nI look.\n</think>\n\n{}", "{}<|im_end|>", "I look.</think>{}\n"):
        whole = around.format("\0").replace("\0", text)
        assert read(whole) == ("", calls, []), whole
        assert read(whole, cut=3) == ("", calls, []), whole


@pytest.mark.parametrize("family", FAMILIES)
def test_the_name_of_its_tool_on_native_wires_is_known(family: str) -> None:
    """A tool ``get.weather`` is ``get_weather`` on native wires, unless another tool has that name, or two tools would get it."""
    text = FAMILIES[family]([PARIS])
    others = [one for one in TOOLS if one["function"]["name"] != "get_weather"]
    named = [{**TOOLS[0], "function": {**TOOLS[0]["function"], "name": name}} for name in ("get.weather", "get weather")]
    for tools, name in (
        ([*others, named[0]], "get.weather"),
        ([*TOOLS, named[0]], "get_weather"),
    ):
        for size in (len(text), 3):
            reader = find_protocol("auto").reader(tools)
            for at in range(0, len(text), size):
                reader.feed(text[at : at + size])
            assert [(one.name, one.args, one.fault) for one in reader.finish().calls] == [(name, PARIS[1], None)]
    reader = find_protocol("auto").reader([*others, *named])
    reader.feed(text)
    assert {one.name for one in reader.finish().calls} <= {"get_weather", ""}


@pytest.mark.parametrize("family", FAMILIES)
def test_prose_before_it(family: str) -> None:
    text = "I'll look it up: one moment.\n\n" + FAMILIES[family]([PARIS])
    content, calls, faults = read(text)
    if family in AT_START:
        assert calls == faults
        assert faults
    else:
        assert (content, calls, faults) == ("I'll look it up: one moment.", [PARIS], [])


@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in ("granite-3", "command")])
def test_prose_after_it(family: str) -> None:
    content, calls, faults = read(FAMILIES[family]([PARIS]) + "\nI wait for it.")
    if family in ("xlam in a code block", "functionary-3.2", "llama-3.1", "xlam"):
        assert calls == faults  # it may be an example
    else:
        assert (content, calls, faults) == ("I wait for it.", [PARIS], [])


@pytest.mark.parametrize("family", FAMILIES)
def test_one_that_is_quoted_does_not_run(family: str) -> None:
    text = FAMILIES[family]([PARIS]).strip()
    about = [
        f"A model writes this:\n\n~~~\n{text}\n~~~\n\nThat is all.",
        f"> {text.replace(chr(10), chr(10) + '> ')}\n\nYou wrote it.",
    ]
    if "\n" not in text:
        about += [f"Write `{text}` for it.", f'You wrote "{text}", I see.']
    for whole in about:
        content, calls, faults = read(whole)
        assert (content, calls, faults) == (whole, [], []), whole


SHOWN = (
    "It prints {} and exits.", "The report quotes {}.", "The old form ({}) is gone.", "It is **{}** there.", "See [{}](https://x.y).",
    "Use {} or {}", "The log said:\n\n{}\n\nIt would have looked.", "**Example:** {}\n\nDone.", "## Example\n\n{}\n\nText.",
    "Qwen -> {}\nLlama -> none", "The file has\n{}\nand no more.", "- {}\n- next", "1. {}\n2. wait", "- Qwen: {}\n- Llama: none",
    "- Qwen writes {}\n- Llama does not", "// {}\nint x;", "// such as {}\nint x;", "# {}\nx = 1", "/*\n{}\n*/\nint x;",
    "x = {}\nrun(x)", "if (x) {{\n  {}\n}}\nThat is C.", "<td>{}</td>", "<xmp>\n{}\n</xmp>\nis it.", "$ {}\nnot found",
    "<document>\n{}\n</document>\nIt asks for that.", "<thinking>\n{}\nNo.\n</thinking>\nI did not.", "---\n{}\n---\nwas in it.",
    "\\begin{{verbatim}}\n{}\n\\end{{verbatim}}\nis it.", "User: look\nAssistant: {}\nUser: no!",
    "2024-05-01 12:00:01 INFO {}\n2024-05-01 12:00:02 INFO done", "A: {}\nSecond: {}\nThat is how.",
)  # fmt: skip
"""Texts that show a call: in prose, lists, comments, code, tables, documents, transcripts and logs."""


@pytest.mark.parametrize("shown", SHOWN)
def test_one_that_is_shown_does_not_run_and_no_text_is_lost(shown: str) -> None:
    for family in FAMILIES.values():
        text = family([PARIS]).strip()
        whole = shown.replace("{{", "\0").replace("}}", "\1").replace("{}", text).replace("\0", "{").replace("\1", "}")
        for cut in (0, 5):
            content, calls, _ = read(whole, cut=cut)
            assert [call for call in calls if not isinstance(call, str)] == [], whole
            assert content in (whole, whole.removesuffix("<|call|>"), whole.removesuffix("<|eom|>")), whole


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("case", ["code", *(pytest.param(case, marks=pytest.mark.full) for case in ("two", "much"))])
def test_what_is_cut_off_never_runs_wrong(family: str, case: str) -> None:
    """X-8: this holds for every cut, and whether or not the server reports it."""
    calls = list(CASES[case])
    text = FAMILIES[family](calls)
    for size in range(0, len(text), 3 if case == "code" else 7):
        for truncated in (True, *(() if family in NO_OTHER_END else (False,))):
            found = [call for call in read(text[:size], truncated=truncated)[1] if not isinstance(call, str)]
            assert found == calls[: len(found)], text[:size]


@pytest.mark.parametrize("family", FAMILIES)
def test_in_thinking_it_does_not_run(family: str) -> None:
    """000-19"""
    text = FAMILIES[family]([PARIS])
    for whole in (f"<think>I may write {text}</think>No.", f"I may write\n{text}\n</think>No."):
        content, calls, _ = read(whole)
        assert (content, calls) == ("No.", []), whole
    assert [call for call in read(f"<think>I look.\n{text}")[1] if not isinstance(call, str)] == []


_MARK = re.compile(r"<[^<>\n ][^<>\n]{0,60}>|\]<\]minimax\[>\[|\[[A-Z_]+\]|```\w*|functools|>>>")
_NO_MARKS = ("functionary-3.2", "minimax-m2 bare", "minicpm-5", "gpt-oss", "gpt-oss, recipient first", "beam")
"""Families whose text without a mark may look like a person's own."""


@pytest.mark.parametrize("family", FAMILIES)
def test_a_mark_that_is_missing_or_doubled_makes_no_wrong_call(family: str) -> None:
    """Only whole calls that were meant run; the model learns which calls did not run."""
    calls = list(CASES["two"])
    text = FAMILIES[family](calls)
    for match in _MARK.finditer(text):
        for mark in ("", match[0] * 2):
            whole = f"I look.\n\n{text[: match.start()]}{mark}{text[match.end() :]}"
            _, found, faults = read(whole)
            ran = [call for call in found if not isinstance(call, str) and call[0] in ("get_weather", "write_file", "now")]
            assert all(call in calls for call in ran), whole
            assert len(found) >= len(calls) or faults or family in _NO_MARKS, whole
