"""The hooks. toolcrib calls them after the plugin is enabled; importing this module does nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from hello_plugin import command, greeting
from toolcrib import Block, RunsCommand, ToolCallContext, ToolRegistry, hookimpl

_PROD = re.compile(r"\bprod(uction)?\b", re.IGNORECASE)


@hookimpl
def register_tools(registry: ToolRegistry) -> None:
    greeting.register(registry)


@hookimpl
def register_toolsets(add: Callable[[str, Mapping[str, Any]], None]) -> None:
    add("friendly", {"description": "Greetings, and questions to the user.", "tools": ["greet"], "includes": ["clarify"]})


@hookimpl
def register_command(add: Callable[[str, Any], None]) -> None:
    add("hello", command)


@hookimpl
def tool_gate(ctx: ToolCallContext) -> Block | None:
    """Block a call by its effects rather than by its tool's name, so that every tool that runs commands is covered."""
    for effect in ctx.effects:
        if isinstance(effect, RunsCommand) and _PROD.search(effect.command):
            return Block("the hello plugin keeps commands away from prod; work on staging")
    return None
