"""The model's instructions about tools and their results, with the specification's text (000-10, 000-11, 000-38)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from agent.protocols._made import Definitions
from toolcrib.contract.session import ExecutedCall
from toolcrib.contract.types import Json, ToolCall, ToolStatus

TAGS_INTRO = (
    'You have tools. To use one: <tool_call>{"name":"tool_name","args":{...}}</tool_call>\n'
    "When done, respond without tool_call tags.\n"
)
_COMMAND_INTRO = (
    'You have tools. To use one, write one line: @tool tool_name {"key": "value"}\nWhen done, respond without such a line.\n'
)


def tool_lines(definitions: Sequence[Mapping[str, Json]]) -> str:
    """Return the list of tools, one per line: ``- name(p1, p2): description``; no parentheses without parameters (000-11)."""
    lines = []
    known = Definitions(definitions)
    for name, function in known.tools.items():
        keys = known.keys(name)
        listed = f"({', '.join(keys)})" if keys else ""
        lines.append(f"- {name}{listed}: {function.get('description', '')}\n")
    return "".join(lines)


def with_tools(instructions: str, intro: str, definitions: Sequence[Mapping[str, Json]]) -> str:
    """Return the system prompt; without tools it has no section about them (000-12)."""
    if not definitions:
        return instructions
    section = f"{intro}\n{tool_lines(definitions)}"
    return f"{instructions.rstrip()}\n\n{section}" if instructions else section


def tags_prompt(instructions: str, definitions: Sequence[Mapping[str, Json]]) -> str:
    return with_tools(instructions, TAGS_INTRO, definitions)


def command_prompt(instructions: str, definitions: Sequence[Mapping[str, Json]]) -> str:
    return with_tools(instructions, _COMMAND_INTRO, definitions)


def hermes_prompt(instructions: str, definitions: Sequence[Mapping[str, Json]]) -> str:
    """Return the prompt with the whole schemas, as models that were trained on tools expect them."""
    if not definitions:
        return instructions
    schemas = "\n".join(
        json.dumps({"type": "function", "function": dict(function)}, ensure_ascii=False)
        for function in Definitions(definitions).tools.values()
    )
    section = (
        f"You have tools. Their signatures:\n<tools>\n{schemas}\n</tools>\n"
        'To use one: <tool_call>{"name": "tool_name", "arguments": {...}}</tool_call>\n'
        "When done, respond without tool_call tags.\n"
    )
    return f"{instructions.rstrip()}\n\n{section}" if instructions else section


def plain_result(executed: ExecutedCall) -> str:
    """Return a result as text: the tool's own text, ``OK`` if it is empty, ``Error: ...`` for a failure (000-35, 000-36)."""
    from tools.dispatch.json_results import as_json, reason

    result = executed.result
    if "model" in result.views:
        return result.views["model"]
    if result.status is ToolStatus.SUCCESS and result.message is None:
        if result.data is None or result.data == "":
            return "OK"
        return result.data if isinstance(result.data, str) else as_json(executed)
    if result.is_error:
        return _error(reason(result.message or "the tool failed without a message", executed.call.name))
    return as_json(executed)


def _error(why: str) -> str:
    return f"Error: {why.removeprefix('Error: ')}"


def results_text(named: Sequence[tuple[str, str]]) -> str:
    """Return all results of a turn as one text, in call order (000-38)."""
    return "Tool results:\n\n" + "\n\n".join(f"[{name or 'unreadable call'}] {text}" for name, text in named)


def recorded_result(result: Mapping[str, Json]) -> str:
    """Return a stored result, whose text is JSON, in the form of a fresh one."""
    text = str(result["text"])
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, str):
        return value or "OK"
    if result.get("is_error") and isinstance(value, dict) and isinstance(value.get("error"), str):
        from tools.dispatch.json_results import reason

        return _error(reason(value["error"], str(result.get("name", ""))))
    return "OK" if value is None else text


def tags_reply(text: str, calls: Sequence[ToolCall]) -> str:
    blocks = (json.dumps({"name": call.name, "args": call.args}, ensure_ascii=False) for call in calls)
    return "\n".join([*([text] if text else []), *(f"<tool_call>{block}</tool_call>" for block in blocks)])


def command_reply(text: str, calls: Sequence[ToolCall]) -> str:
    lines = (f"@tool {call.name} {json.dumps(call.args, ensure_ascii=False)}" for call in calls)
    return "\n".join([*([text] if text else []), *lines])


def results_message(executed: Sequence[ExecutedCall]) -> list[dict[str, Json]]:
    return [{"role": "user", "content": results_text([(one.call.name, plain_result(one)) for one in executed])}]
