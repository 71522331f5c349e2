"""The schema of ``session_search``. Its handler belongs to the agent loop: agent/searching.py."""

from __future__ import annotations

from toolcrib.contract.display import ToolDisplay
from tools.registry import registry

registry.register(
    name="session_search",
    toolset="session_search",
    schema={
        "description": (
            "Search messages, calls and results of earlier sessions with this user, and of hidden parts of this one. With "
            "session and around it reads messages."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "maxLength": 500,
                    "description": 'Words that a message must all have; "a phrase", begin*, one OR other, -not. Names of files'
                    " and functions match whole or in part.",
                },
                "order": {"type": "string", "enum": ["newest", "best"], "default": "newest"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 20, "default": 8},
                "since": {"type": "string", "description": "Date or time (ISO 8601), such as 2026-01-31."},
                "until": {"type": "string", "description": "Only before this date or time."},
                "this_project": {"type": "boolean", "default": False, "description": "Only sessions in this folder and below."},
                "platform": {"type": "string", "description": "Only sessions of one platform: cli, telegram ..."},
                "role": {"type": "string", "enum": ["user", "assistant", "results"]},
                "session": {"type": "string", "description": "Only this session: the id in a hit."},
                "around": {"type": "integer", "minimum": 0, "description": "With session: read the messages around this place."},
                "summary": {
                    "type": "boolean",
                    "default": False,
                    "description": "Also let a model summarise the hits, if the user allows that.",
                },
                "artifact": {"type": "string", "description": "Read this large result: the name in a hit."},
                "page": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "With around or artifact: read that message or result page by page.",
                },
            },
            "additionalProperties": False,
        },
    },
    handler=None,
    kind="other",
    changes="nothing",
    emoji="🔎",
    display=ToolDisplay(verb="searches sessions for", subject=("query", "session")),
)
