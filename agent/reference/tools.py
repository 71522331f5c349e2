"""A page for each tool that comes with toolcrib: its description for models, and its effects."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from agent.reference.page import Page, as_json, block, code, index, plain, rows

if TYPE_CHECKING:
    from toolcrib.contract.entry import ToolEntry

_WORDS = """\
The tools that come with toolcrib. A session gets the tools of its toolsets that can work in its environment: `toolcrib tools`
lists them, and why one is missing; `toolcrib toolsets` shows the toolsets."""
_KINDS = {
    "read": "It changes nothing.",
    "edit": "It changes files: the gate checks each call first.",
    "execute": "It runs commands: the gate checks each call first.",
    "other": "",
}
_CHANGES = {
    "nothing": "It changes nothing outside the conversation.",
    "kept": "Undo can restore the files.",
}


def pages() -> Iterator[Page]:
    """Yield an index and a page for each tool."""
    import model_tools  # noqa: F401 - finds the built-in tools
    from toolcrib.contract.registry import registry

    entries = sorted(registry.entries(), key=lambda entry: entry.name)
    yield index("reference/tools/index", "Tools", _WORDS, [entry.name for entry in entries])
    for entry in entries:
        yield Page(f"reference/tools/{entry.name}", _text(entry))


def _text(entry: ToolEntry) -> str:
    schema = json.loads(json.dumps(entry.schema, default=dict))
    parameters = schema.get("parameters", {})
    facts = [f"Toolset: {code(entry.toolset)}.", _KINDS[entry.kind]]
    if entry.handler is None:
        facts.append("The session itself runs it, not the dispatcher.")
    facts.append(_CHANGES.get(entry.changes, ""))
    if entry.parallel_safe:
        facts.append("Several such calls of a turn may run at the same time.")
    if entry.interactive:
        facts.append("It needs a user, and never runs at the same time as other calls.")
    if entry.timeout is not None:
        facts.append(f"Time limit: {entry.timeout:g} seconds.")
    if entry.requires_env:
        facts.append(f"Required variables: {', '.join(map(code, entry.requires_env))}.")
    lines = [
        f"# {code(entry.name)}",
        "",
        "Description for the model:",
        "",
        block(schema["description"]),
        "",
        " ".join(filter(None, facts)),
    ]
    properties = parameters.get("properties", {})
    if properties:
        required = parameters.get("required", ())
        made = [[code(name), _type(one), _words(one, name in required)] for name, one in properties.items()]
        lines += ["", "## Arguments", "", rows(("argument", "type", "meaning"), made)]
    lines += ["", "## Schema", "", block(json.dumps(schema, ensure_ascii=False, indent=2), "json"), ""]
    return "\n".join(lines)


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(code(as_json(value)) for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    named = schema.get("type", "any")
    if named == "array" and isinstance(schema.get("items"), Mapping):
        return f"list of {_type(schema['items'])}"
    return " or ".join(named) if isinstance(named, list) else str(named)


def _words(schema: Mapping[str, Any], required: bool) -> str:
    said = [plain(schema.get("description", ""))]
    bounds = [f"at {word} {schema[key]}" for key, word in (("minimum", "least"), ("maximum", "most")) if key in schema]
    said += [f"{', '.join(bounds).capitalize()}."] if bounds else []
    said += ["Required."] if required else [f"Default: {code(as_json(schema['default']))}."] if "default" in schema else []
    return " ".join(filter(None, said))
