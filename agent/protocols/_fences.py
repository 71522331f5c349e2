"""The tags that begin and end calls and thinking, by dialect. A new dialect is a row here, and a reader if its inside is new."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from agent.protocols import _tokens
from agent.protocols._bodies import read_body
from agent.protocols._made import Definitions, faulty
from agent.protocols._scan import JsonScanner, Scanner, TagScanner
from agent.protocols.command import parse_command
from toolcrib import ToolCall

SHIELDS = (
    ("<parameter", "</parameter>"),
    ("<param ", "</param>"),
    ("<paramname", "</param>"),
    ("<arg_value>", "</arg_value>"),
    ("<longcat_arg_value>", "</longcat_arg_value>"),
    ("<steptml:parameter", "</steptml:parameter>"),
    ("<atem:parameter", "</atem:parameter>"),
    ("<\uff5cDSML\uff5cparameter", "</\uff5cDSML\uff5cparameter>"),
    ("<|open|>argument", "<|close|>argument<|sep|>"),
)
_QUOTES = (('<|"|>', '<|"|>'), ("<escape>", "<escape>"))
DECIDES = 8
"""Characters that decide which dialect a block holds."""


@dataclass(frozen=True, slots=True)
class ProtocolFence:
    """A row of the table.

    ``keep`` and ``tail`` are the parts of the opening and the closing that belong to the call. ``scan``: how its end is found
    (``content``: by what it is). ``where``: anywhere, or only at the beginning of the reply or of a line. ``rank``: see
    StreamReader. ``soft``: it is text unless calls can be read from it. ``dialect`` are names, with blanks between.
    """

    opener: str
    closers: tuple[str, ...] = ()
    read: Callable[[str, Definitions], list[ToolCall]] = read_body
    scan: Literal["content", "json", "value", "named_value", "tags"] = "content"
    where: Literal["", "start", "line"] = ""
    keep: str = ""
    tail: str = ""
    dialect: str = ""
    rank: int = 0
    soft: bool = False

    def scanner(self, head: str) -> Scanner:
        """Return a scanner for a block that begins with ``head`` (DECIDES characters after blanks, or all there is)."""
        first = head.lstrip()
        if self.scan == "value":
            return JsonScanner((), at_value=True)
        if self.scan == "named_value":
            return JsonScanner((), at_value=True, first="[" if first[:1] == "[" else "{")
        if self.scan == "json":
            return JsonScanner(self.closers)
        if self.scan == "tags":
            return TagScanner(self.closers, SHIELDS)
        if first[:1] in ("{", "["):
            return JsonScanner(self.closers)
        return TagScanner(self.closers, _QUOTES if first.startswith(("call:", ":")) else SHIELDS)


def read_line(body: str, known: Definitions) -> list[ToolCall]:
    """A line of the command protocol."""
    call = parse_command(body, tuple(known.tools))
    return [call] if call else [faulty("", body, 'a call is written as @tool NAME {"key": "value"}')]


def _row(dialect: str, opener: str, *closers: str, **more: object) -> ProtocolFence:
    return ProtocolFence(opener, closers, dialect=dialect, **more)  # type: ignore[arg-type]  # the fields of Fence, by name


FENCES: tuple[ProtocolFence, ...] = (
    _row("hermes qwen_xml glm tags", "<tool_call>", "</tool_call>"),
    _row("gemma tags", "<|tool_call>", "<tool_call|>", rank=1),
    _row("granite tags", "<|tool_call|>", "<|/tool_call|>", rank=2),
    _row("gemma", "<start_function_call>", "<end_function_call>"),
    _row("hermes", "<tool_calls>", "</tool_calls>"),
    _row("hermes", "<TOOLCALL>", "</TOOLCALL>"),
    _row("qwen_xml", "<function=", "</function>", scan="tags", keep="<function=", tail="</function>"),
    _row("qwen_xml", "<function name=", "</function>", scan="tags", keep="<function name=", tail="</function>"),
    _row("qwen_xml", "<functionname=", "</function>", scan="tags", keep="<functionname=", tail="</function>"),
    _row("qwen_xml", "<seed:tool_call>", "</seed:tool_call>"),
    _row("qwen_xml", "<dots_function_call>", "</dots_function_call>"),
    _row("qwen_xml", "<atem:function_calls>", "</atem:function_calls>"),
    _row("glm", "<longcat_tool_call>", "</longcat_tool_call>"),
    _row("kimi", "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", read=_tokens.read_kimi, scan="json"),
    _row("kimi", "<|open|>tools<|sep|>", "<|close|>tools<|sep|>", read=_tokens.read_kimi_k3, scan="tags"),
    _row("deepseek", "<\uff5ctool▁calls▁begin\uff5c>", "<\uff5ctool▁calls▁end\uff5c>", read=_tokens.read_deepseek, scan="json"),
    _row("deepseek", "<\uff5cDSML\uff5cfunction_calls>", "</\uff5cDSML\uff5cfunction_calls>"),
    _row("deepseek", "<\uff5cDSML\uff5ctool_calls>", "</\uff5cDSML\uff5ctool_calls>"),
    _row("qwen_xml", "<\uff5ctool_calls_begin\uff5c>", "<\uff5ctool_calls_end\uff5c>", read=_tokens.read_step, scan="tags"),
    _row("mistral", "[TOOL_CALLS]", read=_tokens.read_mistral, scan="named_value"),
    _row("minimax", "<minimax:tool_call>", "</minimax:tool_call>"),
    _row("minimax", "]<]minimax[>[<tool_call>", "]<]minimax[>[</tool_call>", read=_tokens.read_minimax_m3, scan="tags"),
    _row("pythonic", "<|tool_call_start|>", "<|tool_call_end|>"),
    _row("pythonic", "<function_calls>", "</function_calls>"),
    _row("granite", "<function_call>", read=_tokens.read_json_body, scan="value"),
    _row("granite", "<|function_call|>", read=_tokens.read_json_body, scan="value"),
    _row("granite", "<|message_sep|>\n\nfunction call<|role_sep|>\n", read=_tokens.read_json_body, scan="value"),
    _row("granite", "functools[", read=_tokens.read_json_body, scan="value", where="start", keep="[", soft=True),
    _row("granite", "<|tools_prefix|>", "<|tools_suffix|>", read=_tokens.read_json_body, scan="json"),
    _row("granite", "<|action_start|><|plugin|>", "<|action_end|>", read=_tokens.read_json_body, scan="json"),
    _row("granite", "<|START_ACTION|>", "<|END_ACTION|>", read=_tokens.read_json_body, scan="json"),
    _row("granite", "Action:\n```json\n", "```", read=_tokens.read_json_body, scan="json", where="start", soft=True),
    _row("command", "@tool ", "\n", read=read_line, scan="tags", where="line", keep="@tool "),
)

THINKING: tuple[tuple[str, str], ...] = (
    ("<think>", "</think>"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("<|channel>", "<channel|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("[THINK]", "[/THINK]"),
)
THOUGHT_LABEL = "thought\n"
"""Label that Gemma writes before its thoughts."""

DROPPED = (
    "<|tool_response>",
    "<channel|>",
    "<\uff5ctool▁output▁begin\uff5c>",
    "<\uff5ctool▁output▁end\uff5c>",
    "<|START_TEXT|>",
    "<|END_TEXT|>",
    "<|START_RESPONSE|>",
    "<|END_RESPONSE|>",
    "<|python_start|>",
    "<|python_end|>",
    "<|python_tag|>",
    "<|open|>response<|sep|>",
    "<|close|>response<|sep|>",
    "<|close|>message<|sep|>",
    "<|end|>",
    "<|return|>",
    "<|eot|>",
    "<|eom|>",
    "<|call|>",
)
"""Marks that say nothing to a person."""

HEADERS = ("<|channel|>", "<|start|>")
TO_USER, TO_SELF = "to=user<|message|>", "to=self<|message|>"
"""Beginnings of a reply whose first header stands in the prompt."""

HEADER_END = "<|message|>"
BODY_ENDS = ("<|end|>", "<|return|>", "<|call|>", "<|eot|>", "<|eom|>")


def fences_of(dialects: Iterable[str]) -> tuple[ProtocolFence, ...]:
    """The rows of these dialects; all of them for none."""
    wanted = set(dialects)
    return tuple(row for row in FENCES if not wanted or wanted & set(row.dialect.split()))
