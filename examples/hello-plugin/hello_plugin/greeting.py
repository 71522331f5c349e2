"""The tool ``greet``, with a schema made from the function."""

from __future__ import annotations

from toolcrib import ToolRegistry, tool


def greet(name: str, shout: bool = False) -> str:
    """Return a greeting.

    Args:
        name: The name to greet, such as "Ada".
        shout: In capitals.
    """
    greeting = f"Hello, {name}!"
    return greeting.upper() if shout else greeting


def register(registry: ToolRegistry) -> None:
    tool(toolset="hello", emoji="👋", parallel_safe=True, registry=registry)(greet)
