"""Cases from public reports about schemas, arguments, re-entrance and toolsets, and slips in the JSON of native calls."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.api import Agent
from agent.protocols import find_protocol
from agent.providers._calls import read_arguments
from agent.providers._gemini_tools import GeminiNames
from agent.providers._names import WireNames
from agent.providers._tool_schemas import ANTHROPIC, fitted
from toolcrib import ToolRegistry, tool
from toolcrib.contract.errors import RegistrationError, ToolsetError
from toolcrib.testing import ChatServer
from tools.arguments import ArgumentCheck, check_schema
from toolsets import ToolsetCatalog, catalog

KINDS = ("schema", "arguments", "async", "toolsets")
ELSEWHERE = {
    "loops": "tests/tools/dispatch/test_bridge.py and tests/agent/test_api.py",
    "name-of-builtin": "tests/agent/plugin_host",
    "odd-results": "tests/tools/dispatch/test_pipeline.py",
}
"""Rows that were right when they were reported, and the tests that cover them."""


class Level(enum.StrEnum):
    one = "1"
    exact = "1.10"


def refused(schema: Any) -> None:
    own = ToolRegistry()
    own.attach(lambda name, args, **more: "{}", check_schema)
    with pytest.raises(RegistrationError, match="points outside the schema"):
        own.register("t", "t", {"description": "d", "parameters": {"type": "object", **schema}}, lambda args: 1)


def remote() -> None:
    refused({"properties": {"a": {"$ref": "http://127.0.0.1:9/s.json"}}})


def relative() -> None:
    refused({"$id": "http://example.test/s.json", "properties": {"a": {"$ref": "other.json"}}})
    refused({"$defs": {"unused": {"$ref": "http://example.test/s.json"}}})


def read(schema: Any, given: Any, *, defs: Any = None) -> Any:
    return ArgumentCheck({"type": "object", "properties": {"v": schema}, "$defs": defs or {}})({"v": given})["v"]


def integers() -> None:
    defs = {"I": {"type": "integer"}}
    assert read({"$ref": "#/$defs/I"}, "5", defs=defs) == 5
    assert read({"allOf": [{"$ref": "#/$defs/I"}]}, "5", defs=defs) == 5


def others() -> None:
    assert read({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": "1"}) == {"a": 1}
    assert read({"type": "array", "prefixItems": [{"type": "integer"}]}, ["1"]) == [1]


def plain() -> None:
    for kind, text, value in (("integer", "3", 3), ("boolean", "true", True), ("array", "[1]", [1]), ("object", "{}", {})):
        assert read({"type": kind}, text) == value
    assert read({"type": ["integer", "null"]}, "null") is None
    assert type(read({"type": "integer"}, 5.0)) is int


def enumerated() -> None:
    own, seen = ToolRegistry(), list[Level]()

    @tool(registry=own)
    def grade(level: Level) -> str:
        seen.append(level)
        return "ok"

    [definition] = own.get_definitions(["grade"])
    for text in ("1", "1.10"):
        reader = find_protocol("glm").reader([definition])
        reader.feed(f"<tool_call>grade\n<arg_key>level</arg_key>\n<arg_value>{text}</arg_value>\n</tool_call>")
        [call] = reader.finish().calls
        entry = own.get("grade")
        assert entry is not None
        assert entry.invoke is not None
        entry.invoke(ArgumentCheck(entry.schema["parameters"])(call.args), None, {})  # type: ignore[arg-type]  # it takes no context
    assert seen == [Level.one, Level.exact]


def keys() -> None:
    names = ("$top", "filter[id]", "x" * 70)
    function = {"name": "t", "parameters": {"type": "object", "properties": {name: {"type": "string"} for name in names}}}
    [made], mapped = fitted([function], ANTHROPIC)
    pattern, args = ANTHROPIC.keys, dict.fromkeys(names, "v")
    assert pattern is not None
    assert all(pattern.fullmatch(name) for name in made["parameters"]["properties"])
    assert mapped["t"].received(dict.fromkeys(made["parameters"]["properties"], "v")) == args


def legal() -> None:
    own = ["a.b", "a_b", "3d", "x" * 80, "x" * 79 + "."]
    for names in (WireNames(own), GeminiNames(own)):
        wires = [names.wire(name) for name in own]
        assert len(set(wires)) == len(own)
        assert [names.own(wire) for wire in wires] == own
        assert all(len(wire) <= 64 for wire in wires)


def reentrant(folder: Path) -> None:
    with ChatServer(ChatServer.calls(("nest", {})), ChatServer.text("done")) as server:
        with Agent(model="m", base_url=server.base_url, project_dir=folder) as agent:
            agent.crib.registry.register("nest", "terminal", {"description": "d"}, lambda args: agent.ask("and?").text)
            agent.session.names.append("nest")
            agent.session.scope.granted = None
            assert agent.ask("go").text == "done"
        assert "run of the same session" in server.requests[1]["messages"][-1]["content"]


def asking(folder: Path) -> None:
    with ChatServer(ChatServer.calls(("terminal", {"command": "rm -rf x"})), ChatServer.text("done")) as server:
        with Agent(
            model="m",
            base_url=server.base_url,
            project_dir=folder,
            asker=lambda ticket, ctx: agent.ask("?"),  # type: ignore[return-value,arg-type]  # it never returns
        ) as agent:
            assert agent.ask("go").text == "done"
        assert "error" in server.requests[1]["messages"][-1]["content"]


def presets() -> None:
    assert isinstance(catalog, ToolsetCatalog)
    with pytest.raises(ToolsetError, match="is the preset of a platform"):
        catalog.select(None, ["toolcrib-telegram"])


CHECKS: Mapping[str, Callable[..., None]] = {
    "schema-ref-remote": remote,
    "schema-ref-hang": remote,
    "schema-id-relative": relative,
    "args-ref-int": integers,
    "args-allof": integers,
    "args-additional": others,
    "text-enum-tool": enumerated,
    "args-plain": plain,
    "anthropic-keys": keys,
    "names": legal,
    "reentrant-tool": reentrant,
    "reentrant-asker": asking,
    "disable-preset": presets,
}


@pytest.mark.parametrize("case", CHECKS)
def test_a_reported_case(case: str, tmp_path: Path) -> None:
    check = CHECKS[case]
    check(tmp_path) if check in (reentrant, asking) else check()


def test_every_row_of_these_kinds_has_a_test(corpora: Path) -> None:
    rows = map(json.loads, (corpora / "reports" / "models.jsonl").read_text("utf-8").splitlines())
    assert {row["id"] for row in rows if row["kind"] in KINDS} == {*CHECKS, *ELSEWHERE}


def test_native_rows_with_slips_are_read(corpora: Path) -> None:
    rows = map(json.loads, (corpora / "reports" / "models.jsonl").read_text("utf-8").splitlines())
    slips = [row for row in rows if row["kind"].startswith("wire-") and row["verdict"] == "safe-refusal"]
    assert slips
    for row in slips:
        events = [json.loads(line[6:]) for line in row["input"]["body"].split("\n\n") if line.startswith("data: {")]
        raw = "".join(
            call["function"]["arguments"] for event in events for call in event["choices"][0]["delta"].get("tool_calls", ())
        )
        assert read_arguments(raw) == (row["expected"]["calls"][0]["arguments"], None), row["id"]
