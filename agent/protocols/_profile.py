"""Settings of a reply's reader that follow from a model's family and a prompt's flags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.protocols._dialects import NAMES, find_protocol
from toolcrib.contract.session import TextProtocol, Thinking

_PROTOCOLS = {"json_protocol": "json_object", "at_dsl": "command"}
_NEVER_OPENED = ("deepseek", "cogito", "qwen3vl_nonthinking")
"""Families whose templates leave it to the model to open its thinking."""


def protocol_of(family: str) -> TextProtocol:
    """Return the protocol of that name or model family; ``auto`` for an unknown one."""
    return find_protocol(family if family in NAMES else _PROTOCOLS.get(family, "auto"))


def thinking_of(flags: Mapping[str, Any], family: str = "") -> Thinking:
    """Return the state of the thinking block after the prompt.

    With ``enable_thinking`` or ``reasoning_format``, the block may be open or not: many templates let the model open it.
    """
    if flags.get("has_prior_message") or flags.get("enable_thinking") is False or flags.get("reasoning_format") == "none":
        return "closed"
    if flags.get("starts_in_thinking"):
        return "open"
    if flags.get("thinking_enabled"):
        return "open" if family.startswith("deepseek") else "maybe"
    if flags.get("enable_thinking") or flags.get("reasoning_format"):
        return "maybe"
    return "closed" if family.startswith(_NEVER_OPENED) else "maybe"
