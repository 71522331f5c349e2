"""The tags that begin and end calls and thinking, by dialect. A new dialect is a row here, and a reader if its content is new."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from agent.protocols import _tokens
from agent.protocols._bodies import read_body, read_code
from agent.protocols._made import Definitions
from agent.protocols._python import BEGINS
from agent.protocols._scan import JsonScanner, Scanner, TagScanner
from agent.protocols.command import parse_command
from toolcrib.contract.types import ToolCall

_DSML = tuple(
    bars + gap for gap in ("", " ") for bars in ("\uff5cDSML\uff5c", "|DSML|", "\uff5c\uff5cDSML\uff5c\uff5c", "||DSML||")
)
SHIELDS = (
    ("<parameter", "</parameter>"),
    ("<param ", "</param>"),
    ("<paramname", "</param>"),
    ("<arg_value>", "</arg_value>"),
    ("<longcat_arg_value>", "</longcat_arg_value>"),
    ("<ifm|arg_value>", "</ifm|arg_value>"),
    ("<rfl:parameter", "</rfl:parameter>"),
    ("<steptml:parameter", "</steptml:parameter>"),
    ("<atem:parameter", "</atem:parameter>"),
    *((f"<{name}parameter", f"</{name}parameter>") for name in _DSML),
    ("<|open|>argument", "<|close|>argument<|sep|>"),
)
_QUOTES = (('<|"|>', '<|"|>'), ("<escape>", "<escape>"))
Follows = Literal["lines", "nothing"]
"""The text that may follow a call that runs: text on other lines, or none."""
_FUNCTION = re.compile(r"<function=[^<>\n]*>\s*\S")
_FUNCTION_JSON = re.compile(r"<function=[^<>\n]*>\s*\{")
DECIDES = 8
"""Number of leading characters that show which dialect a block contains."""


@dataclass(frozen=True, slots=True)
class ProtocolFence:
    """A row of the table.

    ``keep`` and ``tail`` are the parts of the opening and the closing that belong to the call. ``scan``: how the block's end is
    found (``content``: the content shows how). ``where``: ``line`` if the block must begin a line. ``follows``: text that may
    follow a call that runs. ``rank``: see ReplyBuilder. ``soft``: the block is text unless calls can be read from it. ``loose``:
    models omit the closing, so text may follow the JSON. ``chained`` matches the gap before another call without an opening.
    ``decides``: how many characters show what the block contains. ``shields``: argument tags besides the usual ones.
    ``dialect``: names, separated by blanks.
    """

    opener: str
    closers: tuple[str, ...] = ()
    read: Callable[[str, Definitions], list[ToolCall]] = read_body
    scan: Literal["content", "json", "value", "named_value", "tags", "message"] = "content"
    where: Literal["", "line"] = ""
    follows: Follows = "lines"
    keep: str = ""
    tail: str = ""
    dialect: str = ""
    rank: int = 0
    soft: bool = False
    loose: bool = False
    chained: re.Pattern[str] | None = None
    decides: int = DECIDES
    shields: tuple[tuple[str, str], ...] = ()

    @property
    def is_line(self) -> bool:
        """Return whether a call ends with its line or with the reply."""
        return self.closers == ("\n",)

    def decided(self, head: str) -> bool:
        """Return whether this beginning of a block shows what the block contains."""
        return len(head) >= self.decides or (self.keep != "" and _FUNCTION.match(head) is not None)

    def scanner(self, head: str) -> Scanner:
        """Return a scanner for a block that begins with ``head`` (``decides`` characters after blanks, or all there is)."""
        first = head.lstrip()
        again = (self.opener,) if self.closers and not (self.keep or self.soft) else ()
        if self.scan == "value":
            return JsonScanner((), at_value=True)
        if self.scan == "message":
            scanner = TagScanner(self.closers, SHIELDS, peek=HEADERS) if first[:1] == "<" else None
            return scanner or JsonScanner(self.closers, peek=HEADERS)
        if self.scan == "named_value":
            return JsonScanner((), at_value=True, first="[" if first[:1] == "[" else "{")
        if self.scan == "json":
            return JsonScanner(self.closers, peek=again) if _INVOKES.search(head) is None else TagScanner(self.closers, SHIELDS)
        if self.scan == "tags" and not _FUNCTION_JSON.match(first):
            return TagScanner(self.closers, SHIELDS)
        if first[:1] in ("{", "[") or self.scan == "tags" or BEGINS.match(first):
            return JsonScanner(self.closers, peek=again, first="{[(")
        shields = _QUOTES if first.startswith(("call:", ":")) else (*SHIELDS, *self.shields)
        return TagScanner(self.closers, shields, peek=again)


def suffixed(mark: str) -> ProtocolFence:
    """Return the row of a tag with a suffix, such as ``<tool_call:ab12>``; all tags of a Hunyuan call have the same suffix."""
    tag = mark[1:-1]
    suffix = tag[tag.index(":") :]
    return ProtocolFence(mark, (f"</{tag}>",), shields=((f"<arg_value{suffix}>", f"</arg_value{suffix}>"),))


SUFFIXED = ("<tool_call:", "<tool_calls:")
"""Beginnings of tags with a suffix."""
THINK_SUFFIXED, THINK_ENDS_SUFFIXED = "<think:", "</think:"
WRAPPERS_SUFFIXED = ("<answer:", "</answer:")


def read_line(body: str, known: Definitions) -> list[ToolCall]:
    """Return the call in a line of the command protocol; none for a mention of a user, or a sentence about decorators."""
    match = _PROSE.match(body)
    if (match and match[1] not in known) or not _LINE.match(body):
        return []
    call = parse_command(body, known.names)
    return [call] if call else []


_PROSE = re.compile(r"@tool[ \t]+([\w.-]*\w)(?:[ \t]+[^\s{]|[.,;:!?](?!\S))")
_LINE = re.compile(r"@tool[ \t]|@[\w.-]+[ \t]*\{")


def _row(dialect: str, opener: str, *closers: str, **more: object) -> ProtocolFence:
    return ProtocolFence(opener, closers, dialect=dialect, **more)  # type: ignore[arg-type]  # the fields of ProtocolFence, by name


BODY_ENDS = ("<|end|>", "<|return|>", "<|call|>", "<|eot|>", "<|eom|>")
MESSAGE_ENDS = ("<|end_message|>", "<|content_model_end_sampling|>")
TURN_ENDS = (
    *BODY_ENDS,
    *MESSAGE_ENDS,
    "[/TOOL_CALLS]",
    "</s>",
    "<|role_end|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|end_of_turn|>",
    "<end_of_turn>",
    "<turn|>",
    "<|END_OF_TURN_TOKEN|>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "<|end\u2581of\u2581sentence|>",
    "[e~[",
    "<seed:eos>",
    "<eos>",
    "<|eos|>",
    "<|EOT|>",
    "<|eod|>",
    "<|endofturn|>",
    "<|endofresponse|>",
    "<|end_of_sentence|>",
    "<end_of_sentence>",
    "</longcat_s>",
    "<|message_sep|>",
    "<|end_of_msg|>",
    "<|iquest_end|>",
    "<|flush|>",
    "<|calls|>",
    "<SPECIAL_11>",
    "<SPECIAL_12>",
)
OTHER_TURNS = (
    "<|im_start|>user",
    "<|im_start|>tool",
    "<|start_header_id|>user",
    "<|start_header_id|>ipython",
    "<|header_start|>user",
    "<|header_start|>ipython",
    "<start_of_turn>user",
    "<start_of_turn>developer",
    "<|start_of_role|>user",
    "<|start_of_role|>tool",
    "<|user|>",
    "<|observation|>",
    "<\uff5cUser\uff5c>",
)
"""Beginnings of turns that are not the model's."""

_BAR = "\uff5c"
_SPELLINGS = tuple((bar, gap) for bar in (_BAR, "|") for gap in ("\u2581", "_", " "))
"""Spellings of DeepSeek's and Step's special tokens: full-width or ASCII bars, and different characters for gaps."""
_INVOKES = re.compile(r"<\w+:invoke|<invoke|<function=")


def _spelled(mark: str) -> tuple[str, ...]:
    """Return all spellings of a token; ``mark`` has ASCII bars, and underscores for gaps."""
    return tuple(mark.replace("|", bar).replace("_", gap) for bar, gap in _SPELLINGS)


def _token_rows() -> Iterator[ProtocolFence]:
    """Yield rows for DeepSeek, Step and Kimi: a section of calls, or a call without the beginning of a section."""
    ends, call_ends = _spelled("<|tool_calls_end|>"), _spelled("<|tool_call_end|>")
    read: dict[str, object] = {"read": _tokens.read_sections, "scan": "json", "decides": 64}
    for opener in _spelled("<|tool_calls_begin|>"):
        yield _row("deepseek qwen_xml", opener, *ends, **read)
    for opener in _spelled("<|tool_call_begin|>"):
        yield _row("deepseek qwen_xml kimi", opener, *call_ends, keep=opener, **read)
    for calls in ("tool_calls", "tool_call"):
        yield _row("kimi", f"<|{calls}_section_begin|>", f"<|{calls}_section_end|>", **read)


def _invoke_rows() -> Iterator[ProtocolFence]:
    """Yield rows for ``invoke`` elements, with and without their wrappers, and for the ``call`` elements of Kimi K3."""
    for name in _DSML:
        for wrapper in ("function_calls", "tool_calls", "calls"):
            yield _row("deepseek", f"<{name}{wrapper}>", f"</{name}{wrapper}>")
        yield _row("deepseek", f"<{name}invoke", f"</{name}invoke>", scan="tags", keep=f"<{name}invoke", tail=f"</{name}invoke>")
    for name, dialect in (("atem:", "qwen_xml"), ("steptml:", "qwen_xml"), ("minimax:", "minimax")):
        yield _row(dialect, f"<{name}invoke", f"</{name}invoke>", scan="tags", keep=f"<{name}invoke", tail=f"</{name}invoke>")
    bare = "<invoke name="
    yield _row("minimax qwen_xml", bare, "</invoke>", scan="tags", keep=bare, tail="</invoke>", soft=True)
    mark = "]<]minimax[>["
    yield _row("minimax", f"{mark}<tool_call>", f"{mark}</tool_call>", read=_tokens.read_minimax_m3, scan="tags")
    invoke, end = f"{mark}<invoke", f"{mark}</invoke>"
    yield _row("minimax", invoke, end, read=_tokens.read_minimax_m3, scan="tags", keep=invoke, tail=end)
    call, end = "<|open|>call", "<|close|>call<|sep|>"
    yield _row("kimi", call, end, read=_tokens.read_kimi_k3, scan="tags", keep=call, tail=end)


def _code_rows() -> Iterator[ProtocolFence]:
    """Yield rows for Command R and Gemma 3: a code block at the end of the reply."""
    block: dict[str, object] = {"where": "line", "soft": True, "follows": "nothing"}
    for end in ("\n", "\r\n"):
        for gap in (end, " ", ""):
            yield _row("granite", f"Action:{gap}```json{end}", "```", read=_tokens.read_json_body, scan="json", **block)
        yield _row("gemma", f"```tool_code{end}", "\n```", read=read_code, decides=64, **block)


FENCES: tuple[ProtocolFence, ...] = (
    _row("hermes qwen_xml glm tags", "<tool_call>", "</tool_call>"),
    _row("gemma tags", "<|tool_call>", "<tool_call|>", rank=1),
    _row("granite tags", "<|tool_call|>", "<|/tool_call|>", rank=2, loose=True),
    _row("gemma", "<start_function_call>", "<end_function_call>"),
    _row("hermes", "<tool_calls>", "</tool_calls>"),
    _row("hermes", "<TOOLCALL>", "</TOOLCALL>"),
    _row("qwen_xml llama", "<function=", "</function>", scan="tags", keep="<function=", tail="</function>", decides=120),
    _row("qwen_xml", "<function name=", "</function>", scan="tags", keep="<function name=", tail="</function>"),
    _row("qwen_xml", "<functionname=", "</function>", scan="tags", keep="<functionname=", tail="</function>"),
    _row("qwen_xml", "<seed:tool_call>", "</seed:tool_call>"),
    _row("qwen_xml", "<dots_function_call>", "</dots_function_call>"),
    _row("qwen_xml", "<atem:function_calls>", "</atem:function_calls>"),
    _row("glm", "<longcat_tool_call>", "</longcat_tool_call>"),
    _row("glm", "<iquest_tool_call>", "</iquest_tool_call>"),
    _row("glm", "<ifm|tool_calls>", "</ifm|tool_calls>"),
    _row("glm", "<ifm|tool_call>", "</ifm|tool_call>"),
    _row("kimi", "<|open|>tools<|sep|>", "<|close|>tools<|sep|>", read=_tokens.read_kimi_k3, scan="tags"),
    _row("mistral", "[TOOL_CALLS]", read=_tokens.read_mistral, scan="named_value", chained=_tokens.MISTRAL_NEXT),
    _row("minimax", "<minimax:tool_call>", "</minimax:tool_call>"),
    _row("pythonic", "<|tool_call_start|>", "<|tool_call_end|>"),
    _row("pythonic", "<function_calls>", "</function_calls>", decides=64),
    _row("llama pythonic", "<|python_tag|>", *(end for end in TURN_ENDS if end[0] == "<"), loose=True),
    _row("llama pythonic", "<|python_start|>", "<|python_end|>"),
    _row("granite", "<function_call>", read=_tokens.read_json_body, scan="value"),
    _row("granite", "<|function_call|>", read=_tokens.read_json_body, scan="value"),
    _row("granite", "function call<|role_sep|>", read=_tokens.read_json_body, scan="value"),
    _row("granite", "function call{", read=_tokens.read_json_body, scan="value", where="line", keep="{", soft=True),
    *(
        _row("granite", opener, *closers, read=_tokens.read_marked, scan="json")
        for opener, *closers in (
            ("<|tool_calls|>", "<|calls|>", "<|flush|>", "<|end|>", "<|im_end|>"),
            ("<|tool_call:begin|>", "<|tool_call:end|>"),
            ("<|plamo:begin_tool_requests:plamo|>", "<|plamo:end_tool_requests:plamo|>"),
            ("<|plamo:begin_tool_request:plamo|>", "<|plamo:end_tool_request:plamo|>"),
        )
    ),
    _row("granite", "<|content_invoke_tool_json|>", *MESSAGE_ENDS, scan="json"),
    _row("granite", "functools[", read=_tokens.read_json_body, scan="value", where="line", keep="[", soft=True),
    _row("granite", "<|tools_prefix|>", "<|tools_suffix|>", read=_tokens.read_json_body, scan="json"),
    *(
        _row("granite", f"<|action_start|>{gap}<|plugin|>", "<|action_end|>", read=_tokens.read_json_body, scan="json")
        for gap in ("", " ", "\n", " \n", "\n ")
    ),
    _row("granite", "<|START_ACTION|>", "<|END_ACTION|>", read=_tokens.read_json_body, scan="json"),
    *_code_rows(),
    _row("command", "@", "\n", read=read_line, scan="tags", where="line", keep="@"),
    *_token_rows(),
    *_invoke_rows(),
)

THINKING: tuple[tuple[str, str], ...] = (
    ("<think>", "</think>"),
    ("<seed:think>", "</seed:think>"),
    ("<mm:think>", "</mm:think>"),
    ("<|channel>", "<channel|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("[THINK]", "[/THINK]"),
    ("<|inner_prefix|>", "<|inner_suffix|>"),
    ("<longcat_think>", "</longcat_think>"),
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
    ("<ifm|think>", "</ifm|think>"),
    ("<ifm|think_fast>", "</ifm|think_fast>"),
    ("<ifm|think_faster>", "</ifm|think_faster>"),
    ("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
    ("<|content_thinking|>", "<|end_message|>"),
    ("<|think|>", "<|end|>"),
)
NOT_STRAY = ("<channel|>", "<|end_message|>", "<|end|>")
"""Ends of thinking that end other text too."""
THINKING_ENDS = ("[BEGIN FINAL RESPONSE]",)
"""Ends of thinking that begins in the prompt, not in the reply (Apriel)."""
THOUGHT_LABEL = "thought\n"
"""Label that Gemma writes before its thoughts."""

ANSWERS = {
    "<|START_TEXT|>": "<|END_TEXT|>",
    "<|START_RESPONSE|>": "<|END_RESPONSE|>",
    "<|open|>response<|sep|>": "<|close|>response<|sep|>",
}
"""Marks around text that is addressed to a user."""
MODEL_TURN = "<|message_model|>"
"""Inkling's beginning of a message, followed by a tool's name if the message is a call."""
DROPPED = (
    *TURN_ENDS,
    *OTHER_TURNS,
    "<|im_start|>assistant",
    "<|assistant|>",
    "<|im_sep|>",
    "<start_of_turn>model",
    "<|start_header_id|>assistant<|end_header_id|>",
    "<|tool_response>",
    "<channel|>",
    "<\uff5ctool\u2581output\u2581begin\uff5c>",
    "<\uff5ctool\u2581output\u2581end\uff5c>",
    "</function_call>",
    "<start_function_response>",
    "<|assistant_end|>",
    *ANSWERS,
    *ANSWERS.values(),
    "<|python_start|>",
    "<|python_tag|>",
    "<|close|>message<|sep|>",
    '<|open|>message role="assistant"<|sep|>',
    "[END FINAL RESPONSE]",
    "<|content_text|>",
    "<|begin|>assistant",
    *(end for row in FENCES for end in row.closers if end not in ("\n", "```", "\n```", "</function>", "</invoke>")),
)
"""Marks that mean nothing to a user: those of turns and answers, and ends of calls that have no beginning."""
WRAPPERS = ("<response>", "</response>", "<answer>", "</answer>", "<assistant>", "</assistant>", "<|content|>")
"""Tags around a whole answer, and Solar's mark before it."""
STRIKE, STRIKE_END = "<s>", "</s>"
"""HTML's strikethrough; its end is also the end of a turn of some models."""

CALL_ENDS = frozenset(end for row in FENCES for end in row.closers) - {"\n", "```", "\n```", *TURN_ENDS}
PART = ">>>"
"""functionary's mark for the beginning of a part of a reply, followed by a recipient."""
HEADERS = ("<|channel|>", "<|start|>")
HEADER_END = "<|message|>"

INNER = (
    "<arg_key>",
    "<arg_value>",
    "<longcat_arg_key>",
    *(f"<{name}parameter" for name in _DSML),
    "<atem:parameter",
    "<steptml:parameter",
    "<|constrain|>",
    "<parameter=",
    "<|tool_call_argument_begin|>",
    "<tool_sep>",
    *_spelled("<|tool_sep|>"),
    "[ARGS]",
    "<|recipient|>",
    "<|action_start|>",
    "<|open|>argument",
    "<|content_invoke_tool_text|>",
    "<TOOL_CALL>",
    "[TOOL_CALL]",
    "<toolcall>",
    "<<function>>",
    "\u273fFUNCTION\u273f",
    "]<]minimax[>[",
)
"""Marks that occur only inside calls: in text they show that a call was lost."""


def fences_of(dialects: Iterable[str]) -> tuple[ProtocolFence, ...]:
    """Return the rows of these dialects; all rows if none are given."""
    wanted = set(dialects)
    return tuple(row for row in FENCES if not wanted or wanted & set(row.dialect.split()))
