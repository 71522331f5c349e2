"""The schema of ``memory``. Its handler belongs to the agent loop: agent/memory/handler.py."""

from __future__ import annotations

from toolcrib.contract.display import ToolDisplay
from tools.registry import registry

TARGETS = ("memory", "user", "project")

registry.register(
    name="memory",
    toolset="memory",
    schema={
        "description": (
            "Keep short notes for later sessions with this user. Note what will matter again and can't be looked up:"
            " corrections, preferences, how things are done here. No task progress (use todo), secrets or others' text. Notes"
            " are stored at once; this session's prompt does not change."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": ["add", "replace", "remove"]},
                "target": {
                    "type": "string",
                    "enum": list(TARGETS),
                    "description": "memory: your own notes. user: who the user is and what they prefer. project: facts about"
                    " this project only.",
                },
                "content": {
                    "type": "string",
                    "maxLength": 1000,
                    "description": "For add and replace: the note, short but clear without this conversation.",
                },
                "old_text": {
                    "type": "string",
                    "maxLength": 1000,
                    "description": "For replace and remove: a part of the note that no other note has.",
                },
            },
            "required": ["action", "target"],
            "additionalProperties": False,
        },
    },
    handler=None,
    kind="other",
    lasting="changes what later sessions read",
    needs="memory",
    emoji="🧠",
    display=ToolDisplay(verb="notes", subject=("content", "old_text")),
)
