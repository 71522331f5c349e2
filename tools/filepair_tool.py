"""The schemas of ``create_file`` and ``edit_file``, for one file in memory. Their handlers: agent/filepair/state.py.

They are not among the built-in tools of every session: the code that runs variants side by side offers them.
"""

from __future__ import annotations

from toolcrib.contract.registry import ToolRegistry
from toolcrib.contract.types import Json
from tools.registry import registry

TOOLSET = "filepair"

_CREATE: dict[str, Json] = {
    "description": "Write the whole file, replacing any before. Later changes: edit_file.",
    "parameters": {
        "type": "object",
        "properties": {
            "path": {"type": "string", "minLength": 1, "maxLength": 500, "description": "For example index.html."},
            "content": {"type": "string", "description": "The whole file."},
        },
        "required": ["path", "content"],
        "additionalProperties": False,
    },
}

_EDIT: dict[str, Json] = {
    "description": "Replace exact texts in the file, in order. If one old_text is not found, nothing is changed.",
    "parameters": {
        "type": "object",
        "properties": {
            "path": {"type": "string", "maxLength": 500, "description": "Default: the file that was created."},
            "edits": {
                "type": "array",
                "minItems": 1,
                "maxItems": 100,
                "items": {
                    "type": "object",
                    "properties": {
                        "old_text": {"type": "string", "minLength": 1},
                        "new_text": {"type": "string"},
                        "count": {
                            "type": "integer",
                            "minimum": -1,
                            "default": 1,
                            "description": "Matches to replace, from the first; -1 for all.",
                        },
                    },
                    "required": ["old_text", "new_text"],
                    "additionalProperties": False,
                },
            },
        },
        "required": ["edits"],
        "additionalProperties": False,
    },
}


def offer(tools: ToolRegistry = registry) -> None:
    """Register both tools, unless they are registered. The toolset ``filepair`` can then be selected; no preset includes it."""
    for name, schema, emoji in (("create_file", _CREATE, "📄"), ("edit_file", _EDIT, "✏️")):
        if tools.get(name) is None:
            tools.register(name, TOOLSET, schema, None, emoji=emoji, kind="other")
