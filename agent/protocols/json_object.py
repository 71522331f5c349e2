"""The JSON tool protocol: each reply is exactly one JSON object, an action or the final answer (001-1 to 001-12).

Lines of the command protocol are read as a fallback (001-13).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any, NoReturn

from agent.protocols._made import CUT_REPLY, UNREADABLE, Definitions, cut_short
from agent.protocols.command import parse_command
from agent.protocols.repair import shown
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import InvalidArguments
from toolcrib.contract.session import ExecutedCall, ParsedReply, StreamEvent, TextReader, Thinking
from toolcrib.contract.types import Json, ToolCall

TEMPLATE = (
    "You are a coding assistant that can call tools via a JSON protocol. Available tools (names & schema will be provided). "
    "Always reply with a single JSON object. No markdown. No commentary. Use this schema: "
    '{ "thought": string (short), "action": { "tool": string, "args": object } } OR { "final": { "content": any } }. '
    "If a tool result is needed, emit action. If done, emit final. Never invent tool names or fields."
)
"""The specification's text (001-15)."""

THOUGHT_LIMIT = 200
_THINK = re.compile(r"\s*<think>.*?</think>", re.DOTALL)
_COMMAND = re.compile(r"[ \t]*@tool[ \t]")
_STRING = r'"[^"\\]*"'
_ARGS_FOLLOW = re.compile(
    rf'\s*\{{\s*(?:"thought"\s*:\s*{_STRING}\s*,\s*)?"action"\s*:\s*\{{\s*"tool"\s*:\s*{_STRING}\s*,\s*"args"\s*:\s*(?=\{{)'
)
_ACTION_ENDS = re.compile(r"(?<=\})\s*\}\s*\}\s*\Z")
"""The braces right after the arguments, which close ``action`` and the whole object.

This does not match if ``thought`` follows ``action``: then a quotation mark precedes the last brace.
"""
_TAIL = 100
_RESEND = (
    'Reply again with exactly one JSON object and nothing else: {"thought": "...", "action": {"tool": "...", "args": {...}}} '
    'or {"final": {"content": ...}}'
)


class _RefusedError(Exception):
    def __init__(self, code: str, text: str, tool: str = "") -> None:
        super().__init__(text)
        self.code, self.tool = code, tool


class JsonObjectProtocol:
    name = "json_object"

    def render_tools(self, definitions: Sequence[Mapping[str, Json]], *, instructions: str = "") -> str:
        """Return the template, then every tool's whole schema (001-16), then the agent's own instructions."""
        lines = [TEMPLATE]
        if definitions:
            lines.append("\nTools:")
            for name, function in Definitions(definitions).tools.items():
                schema = {"name": name, "description": function.get("description", ""), "schema": function.get("parameters", {})}
                lines.append(json.dumps(schema, ensure_ascii=False))
        if instructions:
            lines.append(f"\n{instructions.rstrip()}")
        return "\n".join(lines) + "\n"

    def reader(self, definitions: Sequence[Mapping[str, Json]], *, thinking: Thinking = "maybe") -> TextReader:
        return JsonObjectReader(Definitions(definitions), thinking)

    def render_results(self, executed: Sequence[ExecutedCall]) -> Sequence[Mapping[str, Json]]:
        """Return results with the role tool, as specified (001-7); calls that no tool answered become user messages."""
        from tools.dispatch.json_results import as_json

        messages: list[dict[str, Json]] = []
        for one in executed:
            if one.call.fault is not None:
                messages.append({"role": "user", "content": one.call.fault})
            else:
                messages.append({"role": "tool", "name": one.call.name, "content": as_json(one)})
        return messages

    def render_recorded(self, results: Sequence[Mapping[str, Json]]) -> Sequence[Mapping[str, Json]]:
        return [{"role": "tool", "name": one["name"] or "unknown", "content": one["text"]} for one in results]

    def render_reply(self, text: str, calls: Sequence[ToolCall]) -> str:
        """Return a reply as one object, or as one object for each call: the protocol has no form for several calls."""
        if not calls:
            return json.dumps({"final": {"content": text}}, ensure_ascii=False)
        actions = ({"thought": text[:THOUGHT_LIMIT], "action": {"tool": call.name, "args": call.args}} for call in calls)
        return "\n".join(json.dumps(action, ensure_ascii=False) for action in actions)


class JsonObjectReader:
    """Reader of a JSON object. It shows nothing before the object is complete: until then it may be anything."""

    def __init__(self, known: Definitions, thinking: Thinking = "maybe") -> None:
        self._known = known
        self._thinking = thinking
        self._text = StringIO()

    def feed(self, text: str) -> list[StreamEvent]:
        self._text.write(text)
        return []

    def finish(self, *, truncated: bool = False) -> ParsedReply:
        whole = self._text.getvalue()
        self._text.close()  # frees its copy
        text, reasoning = self._without_thinking(whole)
        try:
            reply = self._commands(text, reasoning) or self._read(text, reasoning)
        except _RefusedError as error:
            call = ToolCall(ToolCall.new_id(), error.tool, {UNREADABLE: text}, f"{error}. {_RESEND}")
            return ParsedReply("", reasoning, (call,), (str(error),), error=error.code)
        if not (truncated and reply.calls):
            return reply
        calls = cut_short(reply.calls)
        return replace(reply, calls=calls, faults=[CUT_REPLY for _ in calls])

    def _without_thinking(self, text: str) -> tuple[str, str]:
        """Return the text without thinking, and the thinking: closed blocks at the start, and one that the prompt opened."""
        found = []
        while match := _THINK.match(text):
            found.append(match[0].strip().removeprefix("<think>").removesuffix("</think>").strip())
            text = text[match.end() :]
        if text.lstrip().startswith("<think>"):
            return "", "".join([*found, text.lstrip().removeprefix("<think>").strip()])
        before, closed, after = text.partition("</think>")
        if closed and self._thinking != "closed" and not before.lstrip().startswith("{"):
            return after, "".join([*found, before.strip()])
        return text, "".join(found)

    def _commands(self, text: str, reasoning: str) -> ParsedReply | None:
        """Return the calls in lines of the command protocol, the fallback (001-13); None for other text. Raises _RefusedError."""
        lines = [line for line in text.splitlines() if line.strip()]
        if not lines or not all(_COMMAND.match(line) for line in lines):
            return None
        calls = []
        for line in lines:
            call = parse_command(line, self._known.names)
            if call is None or call.fault is not None:
                raise _RefusedError("invalid_json", f"the line {shown(line.strip())} is not a call: {call.fault if call else ''}")
            calls.append(self._action({"tool": call.name, "args": call.args}))
        events = [StreamEvent("tool_call_delta", json.dumps(one.args, ensure_ascii=False), one.id, one.name) for one in calls]
        return ParsedReply("", reasoning, calls, events=events)

    def _read(self, text: str, reasoning: str) -> ParsedReply:
        """Return the reply in a JSON object. Raises _RefusedError."""
        try:
            value = json.loads(text, parse_constant=_refuse, object_pairs_hook=_once)
        except RecursionError:
            raise _RefusedError("invalid_json", "the reply is nested too deeply") from None
        except ValueError as error:
            raise _RefusedError(
                "invalid_json", f"the reply is not one JSON object ({error}). It was: {shown(text.strip())}"
            ) from None
        if not isinstance(value, dict) or len({"action", "final"} & value.keys()) != 1:
            raise _RefusedError("invalid_protocol", "Invalid protocol: the reply must hold either an action or a final answer")
        if "final" in value:
            return self._final(value, reasoning)
        if value.keys() - {"thought", "action"}:
            raise _RefusedError(
                "invalid_protocol", f"Invalid protocol: no such field: {', '.join(value.keys() - {'thought', 'action'})}"
            )
        thought = value.get("thought")
        if thought is not None and not isinstance(thought, str):
            raise _RefusedError("invalid_protocol", "Invalid protocol: thought must be a string")
        call = self._action(value["action"])
        thought = (thought or "")[:THOUGHT_LIMIT]
        events = [StreamEvent("thinking_delta", thought)] if thought else []
        events.append(StreamEvent("tool_call_delta", _written(text, call.args), call.id, call.name))
        return ParsedReply("", reasoning + thought, (call,), events=events)

    def _final(self, value: dict[str, Any], reasoning: str) -> ParsedReply:
        final = value["final"]
        if value.keys() - {"thought", "final"} or not isinstance(final, dict) or final.keys() != {"content"}:
            raise _RefusedError("invalid_protocol", 'Invalid protocol: a final answer is {"final": {"content": ...}} only')
        content = final["content"]
        text = content if isinstance(content, str) else "" if content is None else json.dumps(content, ensure_ascii=False)
        events = [StreamEvent("assistant_delta", text)] if text else []
        return ParsedReply(text, reasoning, events=events, value=content)

    def _action(self, action: Any) -> ToolCall:
        if not isinstance(action, dict) or action.keys() != {"tool", "args"} or not isinstance(action["tool"], str):
            raise _RefusedError("invalid_protocol", 'Invalid protocol: an action is {"tool": string, "args": object} only')
        tool, args = action["tool"], action["args"]
        if tool not in self._known:
            named = ", ".join(self._known.tools) or "none"
            raise _RefusedError("unknown_tool", f"unknown tool {tool!r}; the tools are: {named}", tool)
        tool = self._known.own(tool)
        if not isinstance(args, dict):
            raise _RefusedError("args_mismatch", f"args must be an object; expected {self._schema(tool)}", tool)
        self._check(tool, args)
        return ToolCall(ToolCall.new_id(), tool, args)

    def _check(self, tool: str, args: dict[str, Any]) -> None:
        """Check arguments against the tool's schema. Raises _RefusedError with the problem; then the tool is not run (001-11)."""
        from tools.arguments import ArgumentCheck

        try:
            ArgumentCheck(self._known.parameters(tool) or {"type": "object"})(args)
        except InvalidArguments as error:
            raise _RefusedError("args_mismatch", f"the arguments of {tool} do not fit: {error.text}", tool) from None
        except ValueError as error:
            raise _RefusedError("args_mismatch", f"the schema of {tool} is invalid: {str(error)[:300]}", tool) from None

    def _schema(self, tool: str) -> str:
        return json.dumps(dict(self._known.parameters(tool)), ensure_ascii=False)[:800]


def _written(text: str, args: dict[str, Any]) -> str:
    """Return the arguments as they are written in a valid action; encode them again only if they do not end the action."""
    head, tail = _ARGS_FOLLOW.match(text), _ACTION_ENDS.search(text, max(0, len(text) - _TAIL))
    if head and tail:
        return text[head.end() : tail.start()]
    return json.dumps(args, ensure_ascii=False)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a field appears twice")
    return value
