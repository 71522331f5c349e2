"""Schemas that refer to something outside of themselves: they are refused at once and by name, and nothing is fetched or read."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agent.conversation.structured import AnswerCheck
from agent.protocols.json_object import JsonObjectProtocol
from agent.store.memory import MemoryStore
from toolcrib import Answer, ConfigError, InvalidArguments, RegistrationError, SuspendTicket, ToolCall, ToolRegistry, tool
from toolcrib.contract.store import TicketRecord
from tools.arguments import ArgumentCheck, check_schema, misfit
from tools.dispatch.answers import settle_answer

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"
DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema"
SECRET = {"type": "string", "description": "the content of a file"}


class Outside:
    """Targets that a schema might reach: a web server that counts, a file, a FIFO without a writer, a port that never answers."""

    def __init__(self, folder: Path) -> None:
        self.requests: list[str] = []
        requests = self.requests

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                requests.append(self.path)
                body = json.dumps(SECRET).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()
        self._mute = socket.create_server(("127.0.0.1", 0))
        self.web = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.mute = f"http://127.0.0.1:{self._mute.getsockname()[1]}"
        self.file = folder / "secret.json"
        self.file.write_text(json.dumps(SECRET))
        os.utime(self.file, (1, self.file.stat().st_mtime))  # so that reading it changes the time of its last access
        self.fifo = folder / "fifo"
        os.mkfifo(self.fifo)

    @property
    def is_untouched(self) -> bool:
        """True if no request, connection or read happened."""
        self._mute.settimeout(0)
        try:
            self._mute.accept()[0].close()
        except BlockingIOError:
            return not self.requests and self.file.stat().st_atime == 1
        return False

    def fill(self, schema: str) -> Any:
        return json.loads(
            schema.replace("WEB", self.web)
            .replace("MUTE", self.mute)
            .replace("FILE", str(self.file))
            .replace("FIFO", str(self.fifo))
        )

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._mute.close()


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    with contextlib.closing(Outside(tmp_path)) as made:
        yield made


HOSTILE = {  # by the path of the reference that is named
    "properties.a.$ref": [
        '{"properties": {"a": {"$ref": "WEB/a.json"}}}',
        '{"properties": {"a": {"$ref": "MUTE/a.json"}}}',
        '{"properties": {"a": {"$ref": "file://FILE"}}}',
        '{"properties": {"a": {"$ref": "file://localhostFILE#/x"}}}',
        '{"properties": {"a": {"$ref": "FILE"}}}',
        '{"properties": {"a": {"$ref": "file://FIFO"}}}',
        '{"properties": {"a": {"$ref": "WEB/a.json#/$defs/a"}}, "$defs": {"a": {}}}',
        '{"$id": "WEB/dir/b.json", "properties": {"a": {"$ref": "a.json"}}}',
        '{"$id": "WEB/dir/b.json", "properties": {"a": {"$ref": "../a.json"}}}',
        '{"$id": "WEB/dir/b.json", "properties": {"a": {"$ref": "/a.json#x"}}}',
        '{"$id": "file://FILE/../", "properties": {"a": {"$ref": "secret.json"}}}',
        '{"$id": "file:///", "properties": {"a": {"$ref": "FILE"}}}',
        '{"properties": {"a": {"$ref": "//127.0.0.1/a.json"}}}',
        '{"properties": {"a": {"$ref": "HTTP://127.0.0.1:9/a"}}}',
        '{"properties": {"a": {"$ref": "ftp://127.0.0.1:9/a"}}}',
        '{"properties": {"a": {"$ref": "urn:example:other"}}}',
        '{"properties": {"a": {"$ref": "b.json"}}}',
        '{"properties": {"a": {"$ref": "?x"}}}',
        '{"properties": {"a": {"$id": "x/a.json", "$ref": "b.json"}}, "$defs": {"b": {"$id": "b.json"}}}',
        '{"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"$ref": "WEB/a.json"}}}',
        '{"$schema": "http://json-schema.org/draft-04/schema#", "id": "WEB/b", "properties": {"a": {"$ref": "a"}}}',
    ],
    "$ref": ['{"$ref": "WEB/a.json"}', '{"$ref": "file://FILE"}', '{"$ref": "http://json-schema.org/draft-03/schema#"}'],
    "not.$ref": ['{"not": {"$ref": "WEB/a"}}', '{"not": {"$ref": "file://FILE"}}'],
    "$defs.a.$ref": ['{"$defs": {"a": {"$ref": "WEB/a"}}}', '{"$defs": {"a": {"$ref": "file://FIFO"}}}'],
    "definitions.a.$ref": ['{"definitions": {"a": {"$ref": "WEB/a"}}}'],
    "items.$ref": [
        '{"items": {"$ref": "WEB/a"}}', '{"$schema": "http://json-schema.org/draft-07/schema#", "items": {"$ref": "WEB"}}'
    ],
    "prefixItems[1].$ref": ['{"prefixItems": [{}, {"$ref": "WEB/a"}]}'],
    "allOf[0].anyOf[1].oneOf[0].$ref": ['{"allOf": [{"anyOf": [{}, {"oneOf": [{"$ref": "WEB/a"}]}]}]}'],
    "if.$ref": ['{"if": {"$ref": "WEB/a"}}'],
    "then.$ref": ['{"then": {"$ref": "WEB/a"}}'],
    "contains.$ref": ['{"contains": {"$ref": "WEB/a"}}'],
    "propertyNames.$ref": ['{"propertyNames": {"$ref": "WEB/a"}}'],
    "additionalProperties.$ref": ['{"additionalProperties": {"$ref": "WEB/a"}}'],
    "unevaluatedProperties.$ref": ['{"unevaluatedProperties": {"$ref": "WEB/a"}}'],
    "contentSchema.$ref": ['{"contentSchema": {"$ref": "WEB/a"}}'],
    "patternProperties.^x.$ref": ['{"patternProperties": {"^x": {"$ref": "WEB/a"}}}'],
    "dependentSchemas.a.$ref": ['{"dependentSchemas": {"a": {"$ref": "WEB/a"}}}'],
    "dependencies.a.$ref": ['{"dependencies": {"a": {"$ref": "WEB/a"}, "b": ["a"]}}'],
    "properties.default.$ref": ['{"properties": {"default": {"$ref": "WEB/a"}}}'],
    "properties.enum.items.$ref": ['{"properties": {"enum": {"items": {"$ref": "WEB/a"}}}}'],
    "properties.$ref.$ref": ['{"properties": {"$ref": {"$ref": "WEB/a"}}}'],
    "x-own.$ref": ['{"x-own": {"$ref": "WEB/a"}, "$ref": "#/x-own"}', '{"x-own": {"$ref": "WEB/a"}}'],
    "$dynamicRef": ['{"$dynamicRef": "WEB/a#b"}', '{"$id": "WEB/a", "$dynamicRef": "b#c"}'],
    "$recursiveRef": [
        '{"$recursiveRef": "WEB/a"}', '{"$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveRef": "WEB/a"}'
    ],
    "$schema": [
        '{"$schema": "WEB/schema"}', '{"$schema": "MUTE/schema"}', '{"$schema": "file://FILE"}', '{"$schema": "file://FIFO"}',
        '{"$schema": "WEB/schema", "$id": "WEB/schema"}', '{"$schema": "FILE"}', '{"$schema": ""}', '{"$schema": "#"}',
        '{"$schema": "https://json-schema.org/draft/2099-01/schema"}', '{"$schema": "https://json-schema.org.example/schema"}',
        '{"$schema": "http://json-schema.org/draft-03/schema#"}', '{"$schema": "urn:x", "$vocabulary": {"WEB/v": true}}',
    ],
    "properties.a.$schema": [
        '{"properties": {"a": {"$schema": "WEB/schema"}}}', '{"properties": {"a": {"$schema": "file://FIFO", "$id": "a"}}}'
    ],
    "$defs.a.$schema": ['{"$defs": {"a": {"$schema": "WEB/schema", "$id": "urn:a"}}}'],
}  # fmt: skip
EACH_HOSTILE = [(path, schema) for path, schemas in HOSTILE.items() for schema in schemas]


def value_at(schema: Any, path: str) -> str:
    for part in path.replace("[", ".[").split("."):
        schema = schema[int(part[1:-1])] if part.startswith("[") else schema[part]
    return str(schema)


@pytest.mark.parametrize(("path", "text"), EACH_HOSTILE)
def test_a_reference_that_leads_out_is_named(outside: Outside, path: str, text: str) -> None:
    schema = outside.fill(text)
    fault = check_schema(schema)
    assert fault is not None
    assert fault[0] == f"$.parameters.{path}"
    assert repr(value_at(schema, path)[:200]) in fault[1]
    assert outside.is_untouched


@pytest.mark.parametrize(("path", "text"), EACH_HOSTILE)
def test_no_check_fetches_or_reads_anything(outside: Outside, path: str, text: str) -> None:
    """No schema is fetched, even without a registration: those of tickets, and of tools shown to a model as text."""
    schema = outside.fill(text)
    misfit(schema, {"a": "x"})
    with contextlib.suppress(ValueError, InvalidArguments):  # only the access matters
        ArgumentCheck(schema)({"a": "x"})
    assert outside.is_untouched


@pytest.mark.parametrize(
    "text",
    [
        '{"$ref": "#/const", "const": {"$ref": "WEB/a"}}',
        '{"$ref": "#/examples/0", "examples": [{"$ref": "file://FILE"}]}',
        '{"properties": {"a": {"$ref": "#/properties/a/default"}}, "default": 1}',
        '{"allOf": [{"$ref": "#/enum/0"}], "enum": [{"not": {"$ref": "file://FIFO"}}]}',
        '{"$ref": " WEB/a"}',
        '{"$ref": "http://[/a"}',
    ],
)
def test_what_only_the_library_finds_is_refused_as_well(outside: Outside, text: str) -> None:
    """A reference to data makes it a schema."""
    schema = outside.fill(text)
    fault = check_schema(schema)
    assert fault is not None
    assert misfit(schema, {"a": 1}) != ""
    assert outside.is_untouched


LOCAL: list[Any] = [
    {},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "string"}}},
    {"properties": {"a": {"$ref": "#/definitions/a"}}, "definitions": {"a": {"type": "string"}}, "$schema": DRAFT_7},
    {"properties": {"a": {"$ref": "#"}}},
    {"properties": {"a": {"$ref": ""}}},
    {"properties": {"a": {"$ref": "#name"}}, "$defs": {"a": {"$anchor": "name"}}},
    {"properties": {"a": {"$dynamicRef": "#name"}}, "$defs": {"a": {"$dynamicAnchor": "name"}}},
    {"$schema": DRAFT_2019, "$recursiveAnchor": True, "properties": {"a": {"$recursiveRef": "#"}}},
    {"properties": {"a": {"$ref": "#/properties/b"}, "b": {"type": "string"}}},
    {"properties": {"a": {"$ref": "#/$defs/a~1b"}}, "$defs": {"a/b": {"type": "string"}}},
    {"properties": {"a": {"$ref": "#/$defs/a%20b"}}, "$defs": {"a b": {"type": "string"}}},
    {"$id": "http://127.0.0.1:9/dir/a.json", "$ref": "b.json", "$defs": {"b": {"$id": "b.json"}}},
    {"$id": "http://127.0.0.1:9/d/a", "$ref": "sub/b#/$defs/c", "$defs": {"b": {"$id": "sub/b", "$defs": {"c": {}}}}},
    {"$id": "http://127.0.0.1:9/dir/a.json", "$ref": "/b.json", "$defs": {"b": {"$id": "../b.json"}}},
    {"$id": "http://127.0.0.1:9/a.json", "properties": {"a": {"$ref": "http://127.0.0.1:9/a.json"}}},
    {"$id": "urn:example:tool", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {}}},
    {"$id": "urn:example:tool", "properties": {"a": {"$ref": "urn:example:tool#/$defs/a"}}, "$defs": {"a": {}}},
    {"properties": {"a": {"$ref": "urn:example:a"}}, "$defs": {"a": {"$id": "urn:example:a", "type": "string"}}},
    {"properties": {"a": {"$ref": "b.json"}}, "$defs": {"a": {"$id": "b.json"}}},
    {"$schema": "http://json-schema.org/draft-04/schema#", "id": "http://127.0.0.1:9/a", "allOf": [{"$ref": "b"}],
     "definitions": {"b": {"id": "b", "type": "object"}}},
    *({"$schema": draft} for draft in (DRAFT_7, DRAFT_7[:-1], DRAFT_7.replace("http:", "https:"), DRAFT_2019, DRAFT_2020)),
    *({"$schema": f"http://json-schema.org/draft-0{number}/schema#"} for number in (4, 6)),
    {"properties": {"a": {"$ref": DRAFT_2020}}},
    {"properties": {name: {"type": "string"} for name in ("$ref", "$schema", "$id", "id", "$dynamicRef")}},
    {"properties": {"a": {"const": {"$ref": "http://127.0.0.1:9/a"}}}},
    {"properties": {"a": {"default": {"$ref": "file:///etc/passwd"}, "examples": [{"$schema": "http://127.0.0.1:9/a"}]}}},
    {"properties": {"a": {"enum": ["http://127.0.0.1:9/a", {"$ref": "http://127.0.0.1:9/a"}]}}},
    {"description": "see http://127.0.0.1:9/a", "$comment": "file:///etc/passwd", "format": "uri"},
    {"$id": "http://127.0.0.1:9/a.json", "$vocabulary": {"http://127.0.0.1:9/v": True}},
]  # fmt: skip


@pytest.mark.parametrize("schema", LOCAL)
def test_local_references_and_data_are_good(schema: dict[str, Any]) -> None:
    """An address is not a reference unless a keyword makes it one."""
    assert check_schema(schema) is None
    ArgumentCheck(schema)
    assert not misfit(schema, {}).startswith("$: it can't be checked")


def test_a_local_reference_checks_what_it_names() -> None:
    schema = {"$id": "http://127.0.0.1:9/a", "properties": {"n": {"$ref": "b"}}, "$defs": {"b": {"$id": "b", "type": "integer"}}}
    assert ArgumentCheck(schema)({"n": 3}) == {"n": 3}
    with pytest.raises(InvalidArguments, match="n: "):
        ArgumentCheck(schema)({"n": "many"})


# -- where schemas come from -------------------------------------------------------------------------------------------

TEXTS = ['{"properties": {"a": {"$ref": "WEB/a"}}}', '{"properties": {"a": {"$ref": "file://FIFO"}}}', '{"$schema": "MUTE/s"}']


@pytest.fixture
def registry() -> ToolRegistry:
    made = ToolRegistry()
    made.attach(lambda name, args, **extra: "", check_schema)
    return made


@pytest.mark.parametrize("text", TEXTS)
def test_a_tool_is_refused_at_registration(outside: Outside, registry: ToolRegistry, text: str) -> None:
    parameters = outside.fill(text)
    with pytest.raises(RegistrationError, match=r"tool 'look'.*bad schema at \$\.parameters\.[$a-z.]+: '(http|file):"):
        registry.register("look", "t", {"description": "d", "parameters": parameters}, lambda args: "x")
    assert registry.names() == []
    assert outside.is_untouched


def test_a_tool_of_a_function_is_refused_as_well(outside: Outside, registry: ToolRegistry) -> None:
    """The source of the schema, such as a model of pydantic, does not matter."""
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Where", city=(str, pydantic.Field(json_schema_extra={"$ref": f"{outside.web}/city"})))

    def describe(where: Any) -> str:
        """Look."""
        return str(where)

    describe.__annotations__["where"] = model
    with pytest.raises(RegistrationError, match="points outside the schema"):
        tool(toolset="t", registry=registry)(describe)
    assert outside.is_untouched


def test_a_tool_that_came_before_the_check_is_taken_out(outside: Outside) -> None:
    registry = ToolRegistry()
    registry.register("look", "t", {"description": "d", "parameters": outside.fill(TEXTS[0])}, lambda args: "x")
    registry.attach(lambda name, args, **extra: "", check_schema)
    assert registry.names() == []
    assert outside.web in registry.problems[0].reason
    assert outside.is_untouched


def test_a_schema_that_is_made_later_leaves_its_tool_out(outside: Outside, registry: ToolRegistry) -> None:
    schema = {"description": "d", "parameters": {"type": "object"}}
    made = {**schema, "parameters": outside.fill(TEXTS[0])}
    registry.register("look", "t", schema, lambda args: "x", dynamic_schema=lambda schema, available: made)
    assert registry.get_definitions() == []
    assert outside.web in registry.problems[0].reason
    assert outside.is_untouched


@pytest.mark.parametrize("text", TEXTS)
def test_an_answers_schema_is_a_fault_of_the_configuration(outside: Outside, text: str) -> None:
    with pytest.raises(ConfigError, match=r"the schema of the answer is not a JSON Schema: \$\.[$a-z.]+: '(http|file):"):
        AnswerCheck(outside.fill(text))
    assert outside.is_untouched


@pytest.mark.parametrize("text", TEXTS)
async def test_no_answer_fits_a_ticket_whose_schema_leads_out(outside: Outside, text: str) -> None:
    """The ticket still waits. A denial needs no schema."""
    store = MemoryStore()
    call = ToolCall("c1", "ask", {})
    ticket = SuspendTicket("ask", "which?", response_schema=outside.fill(text), resume_mode="use_as_result", call=call)
    await store.tickets.put(TicketRecord(ticket, "s"))
    with pytest.raises(InvalidArguments, match="can't be checked"):
        await settle_answer(store.tickets, Answer(ticket.id, payload={"a": "x"}))
    _, settled = await settle_answer(store.tickets, Answer(ticket.id, action="cancel"))
    assert settled == "settled"
    assert outside.is_untouched


@pytest.mark.parametrize("text", TEXTS)
def test_a_call_in_text_is_not_checked_by_a_schema_that_leads_out(outside: Outside, text: str) -> None:
    function = {"name": "look", "description": "d", "parameters": outside.fill(text)}
    reader = JsonObjectProtocol().reader([{"type": "function", "function": function}])
    list(reader.feed('{"action": {"tool": "look", "args": {"a": "x"}}}'))
    (call,) = reader.finish().calls
    assert "the schema of look is invalid" in (call.fault or "")
    assert outside.is_untouched


def test_validators_are_made_in_one_place(root: Path) -> None:
    """A validator made elsewhere would fetch a schema's references."""
    folders = ["toolcrib", "tools", "agent", "plugins", "examples"]
    sources = [*root.glob("*.py"), *(file for folder in folders for file in (root / folder).rglob("*.py"))]
    imports = re.compile(r"^\s*(import|from) jsonschema", re.MULTILINE)
    users = {str(file.relative_to(root)) for file in sources if imports.search(file.read_text(encoding="utf-8"))}
    assert users == {"tools/arguments.py"}
    text = (root / "tools" / "arguments.py").read_text(encoding="utf-8")
    assert re.findall(r"jsonschema_rs\.(?!ValidationError|ReferencingError)\w+", text) == ["jsonschema_rs.validator_for"]
