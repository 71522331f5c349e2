"""Tool definitions for a model: the time to remake them, its growth with their number, and their length."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from typing import Any

from benchmarks.core import Figure, best_of_each, each, median_of_each
from toolcrib import ToolRegistry


def measure(*, quick: bool) -> list[Figure]:
    """Return the figures: processor times, and lengths in characters of JSON."""
    return [_repeat(quick=quick), _scale(quick=quick), _chars()]


def _repeat(*, quick: bool) -> Figure:
    """Return the time of repeated definitions. The baseline is one search of PATH, which a check_fn does first: a check_fn that
    caches its result costs less.
    """
    import model_tools

    number, rounds = (50, 3) if quick else (2000, 15)
    runs = {
        "look": each(lambda: shutil.which("env"), number, time.process_time),
        "shown": each(lambda: model_tools.get_tool_definitions(quiet_mode=True), number, time.process_time),
    }
    took = best_of_each(runs, rounds)
    return Figure("definitions.repeat", took["shown"] * 1e6, "us", took["look"] * 1e6, 1.5, "ratio", 'shutil.which("env")')


def _scale(*, quick: bool) -> Figure:
    runs = {"hundred": _changing(100), "thousand": _changing(1000)}
    took = median_of_each(runs, 3 if quick else 25)
    against = "the same with 100 tools, after a change"
    return Figure("definitions.scale", took["thousand"] * 1e3, "ms", took["hundred"] * 1e3, 12, "ratio", against)


def _changing(count: int) -> Callable[[], float]:
    """Return a function that times get_definitions right after a registration, when all definitions are made again."""
    tools = ToolRegistry()
    schema: dict[str, Any] = {
        "description": "A tool of the usual length, described in one sentence.",
        "parameters": {
            "type": "object",
            "properties": {name: {"type": "string", "description": f"The {name}."} for name in ("path", "text", "mode")},
            "required": ["path"],
        },
    }

    def available() -> bool:
        return True

    for number in range(count):
        tools.register(f"tool_{number}", f"set_{number % 10}", schema, lambda args: args, available)
    timed = each(tools.get_definitions, 1, time.process_time)

    def run() -> float:
        tools.register("tool_0", "set_0", schema, lambda args: args, available)
        return timed()

    return run


def _chars() -> Figure:
    import model_tools

    shown = model_tools.get_tool_definitions(quiet_mode=True)
    bare = json.dumps([_undescribed(definition) for definition in shown], ensure_ascii=False)
    length = len(json.dumps(shown, ensure_ascii=False))
    against = f"the same {len(shown)} tools without descriptions"
    return Figure("definitions.chars", length, "chars", len(bare), 16_000, "value", against)


def _undescribed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _undescribed(item) for key, item in value.items() if not (key == "description" and isinstance(item, str))}
    return [_undescribed(item) for item in value] if isinstance(value, list) else value
