"""The schema of ``send_message``. Its handler belongs to the agent loop: agent/gateway/messages.py."""

from __future__ import annotations

from tools.registry import registry

MOST_TEXT = 8_000
"""Maximum length of a message, short enough to show all of it in an approval request."""

registry.register(
    name="send_message",
    toolset="messaging",
    schema={
        "description": (
            "Send a message to another chat of this person, or to one that they allowed; for any other a person is asked first."
            " It is shown as an agent's. What you say here needs no tool."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": ["send", "list"], "default": "send", "description": "list: the chats."},
                "to": {
                    "type": "string",
                    "maxLength": 300,
                    "description": "PLATFORM/CHAT, as list has it; PLATFORM alone where they have one chat there.",
                },
                "text": {"type": "string", "maxLength": MOST_TEXT, "description": "Markdown."},
                "file": {"type": "string", "description": "Path of a file to send with it."},
            },
            "additionalProperties": False,
        },
    },
    handler=None,
    kind="other",
    changes="declared",
    needs="chats",
    emoji="✉️",
)
