"""The schema of ``todo``. Its handler belongs to the agent loop: agent/todo.py."""

from __future__ import annotations

from tools.registry import registry

STATUSES = ("pending", "in_progress", "completed", "cancelled")

registry.register(
    name="todo",
    toolset="todo",
    schema={
        "description": "Keep a task list for work of several steps. Without todos it reads the list. Keep one item in_progress.",
        "parameters": {
            "type": "object",
            "properties": {
                "todos": {
                    "type": "array",
                    "maxItems": 100,
                    "items": {
                        "type": "object",
                        "properties": {
                            "id": {"type": "string", "minLength": 1, "maxLength": 64},
                            "content": {"type": "string", "minLength": 1, "maxLength": 1000},
                            "status": {"type": "string", "enum": list(STATUSES)},
                        },
                        "additionalProperties": False,
                    },
                },
                "merge": {
                    "type": "boolean",
                    "default": False,
                    "description": "Change the items with these ids and add the others, instead of replacing the list.",
                },
            },
            "additionalProperties": False,
        },
    },
    handler=None,
    kind="other",
    effects=lambda args, ctx: (),  # it changes nothing but the conversation, so it need not wait for suspended calls
    emoji="📋",
)
