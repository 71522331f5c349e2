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
            "Send a message to another chat of this user, or to an allowed chat; other chats need approval. It is marked as an"
            " agent's message. Not for answers in this chat."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "action": {"type": "string", "enum": ["send", "list"], "default": "send", "description": "list: the chats."},
                "to": {
                    "type": "string",
                    "maxLength": 300,
                    "description": "PLATFORM/CHAT from list, or PLATFORM if the user has one chat there.",
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
