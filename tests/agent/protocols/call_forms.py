"""Writers of calls in each text form, and a reader that checks that a reply is read the same for any cuts."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from agent.protocols import find_protocol
from toolcrib.contract.session import ParsedReply

TOOLS: list[dict[str, Any]] = [
    {"name": "run", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}},
    {"name": "write", "parameters": {
        "type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}, "required": ["path"]}},
]  # fmt: skip
BAR = "\uff5c"
Args = Mapping[str, str]


class CallForm(NamedTuple):
    """``own`` is the protocol of the models that write this form; ``call(name, args)`` writes a call."""

    own: str
    call: Callable[[str, Args], str]


def _tagged(outer: str, invoke: str, argument: str, ends: tuple[str, str], line: str = "") -> Callable[[str, Args], str]:
    """Return a writer of calls with arguments between tags."""

    def write(name: str, args: Args) -> str:
        inner = "".join(f"{argument.format(key)}{line}{value}{line}{ends[0]}\n" for key, value in args.items())
        return outer.format(f"{invoke.format(name)}\n{inner}{ends[1]}")

    return write


def _json(outer: str, key: str = "arguments") -> Callable[[str, Args], str]:
    return lambda name, args: outer.format(json.dumps({"name": name, key: dict(args)}))


def _hy3(name: str, args: Args) -> str:
    inner = "".join(f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n" for key, value in args.items())
    return f"<tool_calls>\n<tool_call>{name}<tool_sep>\n{inner}</tool_call>\n</tool_calls>"


def _kimi(name: str, args: Args) -> str:
    call = f"<|tool_call_begin|>functions.{name}:0<|tool_call_argument_begin|>{json.dumps(args)}<|tool_call_end|>"
    return f"<|tool_calls_section_begin|>\n{call}\n<|tool_calls_section_end|>"


_DSML = f"{BAR}DSML{BAR}"
FORMS: dict[str, CallForm] = {
    "json": CallForm("hermes", _json("<tool_call>\n{}\n</tool_call>")),
    "qwen": CallForm("qwen_xml", _tagged(
        "<tool_call>\n{}\n</tool_call>", "<function={}>", "<parameter={}>", ("</parameter>", "</function>"), "\n")),
    "dsml": CallForm("deepseek", _tagged(
        f"<{_DSML}tool_calls>\n{{}}\n</{_DSML}tool_calls>", f'<{_DSML}invoke name="{{}}">',
        f'<{_DSML}parameter name="{{}}" string="true">', (f"</{_DSML}parameter>", f"</{_DSML}invoke>"))),
    "dots": CallForm("auto", _tagged(
        "<dots_function_call>\n{}\n</dots_function_call>", '<invoke name="{}">', '<parameter name="{}">',
        ("</parameter>", "</invoke>"))),
    "atem": CallForm("qwen_xml", _tagged(
        "<atem:function_calls>\n{}\n</atem:function_calls>", '<atem:invoke name="{}">', '<atem:parameter name="{}">',
        ("</atem:parameter>", "</atem:invoke>"))),
    "minimax": CallForm("minimax", _tagged(
        "<minimax:tool_call>\n{}\n</minimax:tool_call>", '<invoke name="{}">', '<parameter name="{}">',
        ("</parameter>", "</invoke>"))),
    "seed": CallForm("qwen_xml", _tagged(
        "<seed:tool_call>\n{}\n</seed:tool_call>", "<function={}>", "<parameter={}>", ("</parameter>", "</function>"))),
    "hy3": CallForm("auto", _hy3),
    "kimi": CallForm("kimi", _kimi),
    "tags": CallForm("tags", _json("<tool_call>{}</tool_call>", "args")),
    "command": CallForm("command", lambda name, args: f"@tool {name} {json.dumps(args)}"),
    "object": CallForm("json_object", lambda name, args: json.dumps({"action": {"tool": name, "args": dict(args)}})),
}  # fmt: skip
"""The nine forms of the recorded reports, then the specification's own: tags, commands and the JSON protocol."""


def _cuts(text: str) -> list[list[str]]:
    """Return the text whole, by characters, and cut at places that are the same in each run."""
    chance = random.Random(29)  # noqa: S311 - places to cut, no secret
    places = [0, *sorted(chance.randint(0, len(text)) for _ in range(1 + len(text) // 12)), len(text)]
    return [[text], list(text), [text[start:end] for start, end in itertools.pairwise(places)]]


def read(text: str, protocol: str) -> ParsedReply:
    """Return the reply, after checking for ``auto`` that each way of cutting it gives the same."""
    replies = []
    for pieces in _cuts(text) if protocol == "auto" else [[text]]:
        reader = find_protocol(protocol).reader(TOOLS, thinking="maybe")
        for piece in pieces:
            reader.feed(piece)
        replies.append(reader.finish())
    first, *others = [
        (reply.content, reply.reasoning, [(call.name, call.args, call.fault) for call in reply.calls], list(reply.faults))
        for reply in replies
    ]
    assert all(other == first for other in others), text
    return replies[0]


def runnable(text: str, protocol: str) -> list[tuple[str, Any]]:
    """Return the calls of a reply that would run, as (name, arguments)."""
    return [(call.name, call.args) for call in read(text, protocol).calls if call.fault is None]
