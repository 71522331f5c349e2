"""Arguments of ``terminal`` and ``process`` that concern terminals."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from toolcrib.contract.terminal import TerminalSize
from toolcrib.contract.types import Json

SIZE = TerminalSize(100, 30)
"""The size of a new terminal."""
IN_TERMINAL: Mapping[str, Json] = MappingProxyType(
    {"pty": {"type": "boolean", "description": "In a terminal: prompts, editors."}}
)
"""The argument of ``terminal``. It names no size, which would cost context in each session: ``resize`` of ``process`` does."""
ACTIONS: Mapping[str, Json] = MappingProxyType(
    {
        "keys": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": 2000},
            "minItems": 1,
            "maxItems": 200,
            "description": 'keys: names as in tmux; other text is typed: [":wq", "Enter"], ["C-c"], ["Up"], ["F5"].',
        },
        "prompt": {"type": "boolean", "description": "wait: until a terminal shows a prompt."},
        "columns": {"type": "integer", "minimum": 20, "maximum": 300},
        "rows": {"type": "integer", "minimum": 5, "maximum": 100},
    }
)
NEEDED: Mapping[str, tuple[str, ...]] = {"keys": ("keys",), "resize": ("columns", "rows")}
"""Arguments that actions need."""
ONLY: Mapping[str, str] = {"keys": "keys", "prompt": "wait", "columns": "resize", "rows": "resize"}
"""The only action that an argument belongs to."""
