"""Finds calls in a finished reply's text that no reader has read: none of them runs, and the model gets a fault."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

from agent.protocols import _fences
from agent.protocols._code import EMPTY_ELEMENT, CodeState, end_of_quoted, goes_on, without_code
from agent.protocols._made import UNREADABLE, Definitions, faulty, spells_calls
from agent.protocols._python import BEGINS, read_python
from agent.protocols._quotes import SENTENCE_ENDS
from agent.protocols._scan import tokens_of
from agent.protocols._sentences import LOOKED_BACK, covers
from agent.protocols._start import Beginning, nested_calls, trailing_code
from agent.protocols._unlisted import unlisted_calls
from toolcrib.contract.session import ParsedReply, TextReader
from toolcrib.contract.types import Json, ToolCall

_HOW = "write each call in the form of your instructions, and nothing else that looks like a call"
_WEAK = (
    "functools[",
    "@",
    "function call{",
    "<function_calls>",
    "<function_call>",
    "<invoke name=",
)
"""Openings that people write too; they count only if a call can be read from them."""
_ENDS = {fence.opener: fence.closers for fence in _fences.FENCES}
_MARKS = tuple(dict.fromkeys((*(opener for opener in _ENDS if opener not in _WEAK and "```" not in opener), *_fences.INNER)))
_WEAK_MARKS = ("<invoke name=", "<function_calls>", "<function_call>")
_LOOKED_FOR = (*_MARKS, *_fences.HEADERS, *_WEAK_MARKS)
_ARGUMENTS = re.compile(r"\s*\{")
_OBJECT = re.compile(
    r"""(?:\[\s*)?\{\s*["'](?:name|tool|tool_name|tool_calls?|function_call|function|type|id|arguments|args|parameters|thought|action)["']\s*:"""
)
_BULLET = re.compile(r"[ \t]*(?:[-*\u2022][ \t]+|\d+[.)][ \t]+|functools)?")
_FUNCTOOLS = re.compile(r"[\s:;,.!?]functools\Z")
_REST = re.compile(r"[ \t]*[,;.]?[ \t]*(?:\n|\Z)")
_NAMED = re.compile(r"(?:^|>>>)[ \t]*([A-Za-z_][\w.-]*)[ \t]*\n\s*(?=\{)", re.MULTILINE)
_PYTHON = re.compile(r"^[ \t]*(\[[A-Za-z_][^\n]*\])[ \t]*$|(?<=\s)(\[[A-Za-z_][\w.-]*\([^\n]*\])\s*\Z", re.MULTILINE)
_COMMAND = re.compile(r"^[ \t]*(?:[-*\u2022>][ \t]+|\d+[.)][ \t]+)?@(?:tool[ \t]+)?(?P<name>[\w.-]+)[ \t]*\{", re.MULTILINE)
_LONE = re.compile(r"^@([\w.-]+)\s*\Z", re.MULTILINE)
"""A last line that only names a tool."""
_REACT = re.compile(r"^Action:[ \t]*([\w.-]+)[ \t]*\n[ \t]*Action Input:[ \t]*(?=\{)", re.MULTILINE)
_STRIPPED = re.compile(
    r"(?:commentary|analysis|assistant)[ \t]*(?:<\|channel\|>\w*[ \t]*)?to=(?:functions\.)?([\w.-]+)[^\n{]{0,40}(?=\{)"
)
"""Harmony's message to a tool, also if a server removed the special tokens."""
_CALL_END = re.compile(r"[}>]\s*</(?:function|invoke|param|parameter)>\s*\Z")
_CALL_BEGIN = re.compile(r"<(?:function|invoke)\b")
_CALL_LABEL = re.compile(r"[`~](?:tool|function)[_-]?(?:calls?|use)\s*\Z", re.IGNORECASE)
_CALLED = re.compile(r"[{\[]|\w\(|<\w+[= ]|arg_")
_MOST = 50
"""Maximum number of objects, or of marks in thinking, to check."""
_TAIL = 60


def marks_in(text: str) -> tuple[list[str], str]:
    """Return the marks of calls in ``text`` outside of code and quotations, and the text without quoted parts."""
    found: dict[str, None] = {}
    kept: list[str] = []
    code, at = CodeState(), 0
    for match in tokens_of(_LOOKED_FOR).pattern.finditer(text):
        start, stop = match.span()
        if start < at:
            continue
        code.feed(text[at:start])
        kept.append(text[at:start])
        mark = match[0]
        closing = code.quotation()
        quoted = -1 if closing is None else end_of_quoted(text, stop, _ENDS.get(mark, ()), closing)
        if quoted >= 0:
            kept.append(" ")
            stop = quoted
        else:
            kept.append(text[start:stop])
            spoken = (code.in_sentence and speaks(text[stop:])) or (mark == "[ARGS]" and not _ARGUMENTS.match(text, stop))
            if mark in _MARKS and not spoken:
                found[mark] = None
        code.feed(text[start:stop])
        at = stop
    return list(found), "".join([*kept, text[at:]])


def lost_calls(
    content: str, open_thinking: str, beginning: Beginning, reader: Callable[[], TextReader], end: str
) -> list[ToolCall]:
    """Return faulty calls for calls that were found but not read.

    ``reader`` makes a reader for the content of a code block; ``end`` is the end of a call whose beginning was not seen.
    """
    known = beginning.known
    marks, _ = marks_in(open_thinking)
    if marks:
        fault = f"{_listed(marks)} in the thinking: calls there are not run; end the thinking, then call"
        return [faulty("", open_thinking, fault)]
    if found := lost_in_block(content, beginning, reader):
        return found
    found = left_over(content, known)
    if not end and (match := _CALL_END.search(content, max(0, len(content) - _TAIL))) and not _CALL_BEGIN.search(content):
        end = match[0][1:].strip()
    lone = _LONE.search(content)
    if lone and lone[1] in known and not known.lacks(lone[1], {}):
        found.append(faulty(lone[1], lone[0], f"a call needs braces, even without arguments: @{lone[1]} {{}}"))
    if end and not found:
        found = [faulty("", content, f"{end} ends a call whose beginning is unreadable; {_HOW}")]
    return found


def lost_in_block(
    content: str, beginning: Beginning, reader: Callable[[], TextReader], *, labelled: bool = False
) -> list[ToolCall]:
    """Return a faulty call for the calls in a code block that ends a text. ``labelled``: only if its label is for calls."""
    code, known = trailing_code(content), beginning.known
    if code is None or (labelled and not _CALL_LABEL.search(code[0])):
        return []
    names = _names_in_code(*code, beginning, reader)
    if not any(name in known or (name and not known) for name in names):
        return []
    fault = "calls in a code block at the end of the reply are not run; to call, write the call without the block"
    return [faulty(names[0], code[1], f"{fault}, and to show an example, write text after it")]


def _names_in_code(opener: str, code: str, closed: bool, beginning: Beginning, reader: Callable[[], TextReader]) -> list[str]:
    """Return the names of the tools that a block's code calls. In an unclosed block, calls after other code count too."""
    if beginning.begins_call(opener, code):
        return [call.name for call in nested_calls(opener, code, reader)]
    action = _value(code.strip(), 0)[0]
    if isinstance(action, dict) and "action" in action:
        return spells_calls(action, beginning.known)
    if closed or (mark := tokens_of(_MARKS).pattern.search(code)) is None:
        return []
    return [call.name for call in nested_calls("", code[mark.start() :], reader)]


def speaks(text: str) -> bool:
    """Return whether the text after a mark continues the sentence with the mark, without a call on that line."""
    return goes_on(text) and not _CALLED.search(text.partition("\n")[0])


def _listed(marks: list[str]) -> str:
    return f"{', '.join(marks)} {'is' if len(marks) == 1 else 'are'}"


def left_over(content: str, known: Definitions) -> list[ToolCall]:
    """Return faulty calls for everything that looks like a call in the text of a reply."""
    if not any(sign in content for sign in "<[{(\u273f"):
        return []
    marks, text = marks_in(EMPTY_ELEMENT.sub("", content))
    found = [faulty("", content, f"{_listed(marks)} in the text, but there is no readable call; {_HOW}")] if marks else []
    text = without_code(text)
    if not marks and known:
        found += [
            faulty(name, raw, f"there is a call in the text, where calls are not run; {_HOW}")
            for name, raw in _calls(text, known)
        ]
    if not found and known:
        found += [
            faulty(name, raw, f"the name of a tool is inside marks that are not read as a call; {_HOW}")
            for name, raw in unlisted_calls(text, known)
        ]
    return found


def lost_at_end(content: str, known: Definitions) -> list[ToolCall]:
    """Return a faulty call if the last paragraph of a text ends with an unreadable call of a known tool."""
    last = content[content.rfind("\n\n") + 1 :]
    if not content.endswith(("}", "]", ">", ")")) or not any(name in last for name in known.names):
        return []
    for call in left_over(last, known):
        at = content.rfind(str(call.args[UNREADABLE]))
        if not covers(content[max(0, at - LOOKED_BACK) : max(0, at)]):
            return [call]
    return []


def calls_in_thinking(thinking: str, known: Definitions, reader: Callable[[], TextReader]) -> list[ToolCall]:
    """Return the calls that end the thinking of a reply without an answer; none if they are unclear.

    Trinity's models call this way. The thinking must end with its calls, and all of them must be readable.
    """
    places = [match.start() for match in tokens_of(_MARKS).pattern.finditer(thinking)][:_MOST]
    whole = _read(thinking, reader) if places else None
    if whole is None or whole.faults or not whole.calls or any(call.name not in known for call in whole.calls):
        return []
    for place in places:
        before = thinking[:place].rstrip()
        if before and not before.endswith((*SENTENCE_ENDS, ":")):
            continue  # it is part of a thought
        ending = _read(thinking[place:], reader)
        if not (ending.content or ending.faults) and len(ending.calls) == len(whole.calls):
            return list(ending.calls)
    return []


def _read(text: str, reader: Callable[[], TextReader]) -> ParsedReply:
    inner = reader()
    inner.feed(text)
    return inner.finish()


def _calls(text: str, known: Definitions) -> Iterator[tuple[str, str]]:
    """Yield name and text of each untagged call of a known tool."""
    if "{" in text:
        yield from _objects(text, known)
        for match in (*_NAMED.finditer(text), *_REACT.finditer(text), *_STRIPPED.finditer(text)):
            if match[1] in known and isinstance(_value(text, match.end())[0], dict):
                yield match[1], text[match.start() : _value(text, match.end())[1]]
        command = _COMMAND.search(text)
        if command and command["name"] in known:
            yield command["name"], text[command.start() :].partition("\n")[0]
    lines = [match[1] or match[2] for match in _PYTHON.finditer(text)]
    for written in lines or [text]:
        calls = read_python(written) if BEGINS.match(written) else []
        names = [call.name for call in calls if call.name in known]
        if names and all(call.fault is None for call in calls):
            yield names[0], written


def _objects(text: str, known: Definitions) -> Iterator[tuple[str, str]]:
    """Yield JSON objects that are calls: those on lines of their own, or, if there are several, all."""
    lines: list[tuple[str, str]] = []
    others: list[tuple[str, str]] = []
    at, looked = 0, 0
    while (match := _OBJECT.search(text, at)) and looked < _MOST:
        looked += 1
        value, end = _value(text, match.start())
        at = max(end, match.start() + 1)
        names = spells_calls(value, known)
        if not names:
            continue
        (lines if _alone(text, match.start(), end) else others).append((names[0], text[match.start() : end]))
    yield from lines
    if len(lines) + len(others) > 1:
        yield from others


def _alone(text: str, start: int, end: int) -> bool:
    """Return whether the text from ``start`` to ``end`` is a line of its own, phi's list of calls, or the end of the text."""
    line = text.rfind("\n", 0, start) + 1
    if _BULLET.fullmatch(text, line, start) and _REST.match(text, end):
        return True
    return _FUNCTOOLS.search(text, max(line, start - 12), start) is not None or not text[end:].strip()


def _value(text: str, at: int) -> tuple[Json, int]:
    """Return the JSON value at ``at``, and its end; (None, at) if there is none."""
    try:
        value, end = _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None, at
    return value, end


_DECODER = json.JSONDecoder()
