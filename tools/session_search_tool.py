"""The schema of ``session_search``. Its handler belongs to the agent loop: agent/searching.py."""

from __future__ import annotations

from toolcrib.contract.display import ToolDisplay
from tools.registry import registry

registry.register(
    name="session_search",
    toolset="session_search",
    schema={
        "description": (
            "Search what was said, called and found in earlier sessions with this person, and in what this one no longer shows. "
            "With session and around it reads the messages there."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "maxLength": 500,
                    "description": 'Words that all stand in a message; "a phrase", begin*, one OR other, -not. Names of files and'
                    " functions are found whole and by their parts.",
                },
                "order": {"type": "string", "enum": ["newest", "best"], "default": "newest"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 20, "default": 8},
                "since": {"type": "string", "description": "Date or time (ISO 8601), as 2026-01-31."},
                "until": {"type": "string", "description": "Date or time before which it was."},
                "this_project": {"type": "boolean", "default": False, "description": "Only sessions in this folder and below."},
                "platform": {"type": "string", "description": "Only sessions of one platform: cli, telegram ..."},
                "role": {"type": "string", "enum": ["user", "assistant", "results"]},
                "session": {"type": "string", "description": "Only this session: its id, as a hit has it."},
                "around": {"type": "integer", "minimum": 0, "description": "With session: read the messages around this place."},
                "summary": {
                    "type": "boolean",
                    "default": False,
                    "description": "Have a model summarise the hits too, where the person allows that.",
                },
                "artifact": {"type": "string", "description": "Read this large result, by the name that a hit has."},
                "page": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "With around or artifact: that message or result alone, whole, page by page.",
                },
            },
            "additionalProperties": False,
        },
    },
    handler=None,
    kind="other",
    changes="nothing",
    emoji="🔎",
    display=ToolDisplay(verb="looks back for", subject=("query", "session")),
)
