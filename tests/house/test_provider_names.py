"""The special facts of a provider are in its row or its wire's modules: no other module names a provider."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from agent.providers.rows import PROVIDERS, WIRES, vendors
from toolcrib.contract.regex import Regex

pytestmark = pytest.mark.untraced  # it reads the sources, and runs none of them

ROWS = {"agent.providers.rows", "agent.providers.vendor"}
EXCUSES = {
    "agent.cli.commands.parse": "an example in its help",
    "agent.cli.commands.setup": "an example in its help",
    "agent.cli.offer": "examples of typed lines, with the default vendor's variables",
    "agent.cli.options": "help, with the default vendor's variables",
    "agent.cli.words": "the message that the default vendor's key goes into its variable",
    "agent.config._model": "an example of fallbacks, with models of two vendors",
    "agent.mcp.importing": "names of programs, not of providers",
    "agent.model_choice.call_style": "hosts of about forty vendors whose models call natively, through any provider",
    "agent.providers.manual": "examples of typed lines, with the default vendor's variables",
    "plugins.otel.tracing": "OpenTelemetry's names for wires; a wire without one keeps ours",
    "tools.judge.meaning.tails": "names of programs, not of providers",
    "tools.judge.path_rules": "folders of other agents' programs",
}
PLAIN = {"chat", "text", "responses", "manual"}
"""Names that are also words: they name a provider only in a comparison."""


def telling_names() -> set[str]:
    names = {*PROVIDERS, *WIRES, *(vendor.prefix for vendor in vendors().values())}
    return {name.lower() for name in names} - PLAIN


def modules_of_wires() -> set[str]:
    found = {place.partition(":")[0] for wire in WIRES.values() for place in (wire.session, wire.reader) if place}
    return found | {f"agent.providers._{wire}_{part}" for wire in WIRES for part in ("messages", "contents", "items")}


def named(source: Any) -> Iterator[str]:
    telling = Regex("|".join(sorted(telling_names())))
    strings, compared = source.expressions
    for node in strings:
        if telling.search(node.value.lower()):
            yield f"{source.path}:{node.lineno} says {node.value[:60]!r}"
    for node in compared:
        constants = {one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)}
        if constants & PLAIN and ("provider" in (text := ast.unparse(node)) or "wire" in text):
            yield f"{source.path}:{node.lineno} compares {text[:60]}"


def test_no_other_module_names_a_provider(sources: Sequence[Any]) -> None:
    assert {"openai", "anthropic", "gemini"} <= telling_names()
    allowed = ROWS | modules_of_wires()
    found = {source.module: list(named(source)) for source in sources if source.module not in allowed}
    wrong = [line for module, lines in found.items() if module not in EXCUSES for line in lines]
    assert not wrong, "\n".join(wrong)
    assert [module for module in EXCUSES if not found.get(module)] == [], "these excuses are unused"
