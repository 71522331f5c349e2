"""A new provider needs only a row, a new wire only its module and a row. The tests use a copy of the project."""

from __future__ import annotations

from typing import Any

import pytest

from agent.providers.rows import PROVIDERS, WIRES, ThinkingWish, load, share_servers, thinking_options, vendors

PROVIDER = """    "acme": Provider(
        CHAT,
        Vendor("ACME", "https://api.acme.example/v1", title="Acme"),
        models=("acme-",),
        hosts=("api.acme.example",),
        about="a vendor of the tests",
    ),
"""
ASKS = """
import asyncio, json
from agent.providers.factory import ModelRequest, ProviderOpening, find_target, open_session
from agent.providers.rows import thinking_options, wire_of
from toolcrib.testing import ChatServer

async def ask(environ, model):
    target = find_target(ModelRequest(model=model), ModelRequest(), environ)
    options = thinking_options(target.provider, "low")
    session = open_session(target, ProviderOpening("s", tool_choice="required", tools=[TOOL], options=options), environ)
    session.say("Hi.")
    turn = await session.stream_turn(lambda event: None)
    await session.close()
    return target, turn

TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
"""


def test_a_provider_that_speaks_a_known_wire_is_one_row(project_copy: Any) -> None:
    """004-22: the provider is selected by model and host, gets its key, and is in lists, setup and documentation."""
    project_copy.insert("agent/providers/rows.py", '    "text": Provider(TEXT', PROVIDER)
    printed = project_copy.run(
        ASKS
        + """
with ChatServer(ChatServer.text("Hello."), models=["acme-1"]) as server:
    environ = {"ACME_BASE_URL": server.base_url, "ACME_API_KEY": "sesame"}
    target, turn = asyncio.run(ask(environ, "acme-1"))
    assert (target.provider, target.endpoint.key_env, wire_of("acme")) == ("acme", "ACME_API_KEY", "chat"), target
    assert turn.assistant_text == "Hello."
    assert server.headers[0]["authorization"] == "Bearer sesame"
    assert server.requests[0]["tool_choice"] == "required"
    assert server.requests[0]["reasoning_effort"] == "low"

    from agent.config import Config, example_text
    from agent.model_choice.catalog import ask_servers, configured_servers
    (found,) = configured_servers(Config(), environ)
    (offer,) = asyncio.run(ask_servers([found], environ, remembers=False))
    assert [one.name for one in offer.models] == ["acme-1"], offer

away = find_target(ModelRequest(model="m", base_url="https://api.acme.example/v1"), ModelRequest(), {"ACME_API_KEY": "k"})
assert (away.provider, away.endpoint.key_env) == ("acme", "ACME_API_KEY"), away

from agent.model_choice.call_style import is_hosted
assert is_hosted(away.endpoint)
from agent.cli.setup.detection import NAMES, keys_of
assert NAMES["acme"] == "Acme" and keys_of({"ACME_API_KEY": "k"}) == {"acme": "ACME_API_KEY"}
assert "acme (a vendor of the tests)" in example_text().replace("\\n  # ", " ")
from agent.reference.providers import pages
assert "reference/providers/acme" in [page.path for page in pages()]
print("done")
"""
    )
    assert printed.splitlines()[-1] == "done"


WIRE = '''"""A wire of the tests."""

from collections.abc import Mapping
from typing import Any, ClassVar

from agent.providers.endpoint import ModelInfo
from agent.providers.openai_chat import OpenAIChatSession


class NodSession(OpenAIChatSession):
    path = "nod"
    key_header = "x-nod-key"
    headers: ClassVar[Mapping[str, str]] = {"nod-version": "3"}

    @classmethod
    async def list_models(cls, client):
        return (ModelInfo("nod-1"), ModelInfo("nod-2", tools=False))

    def _choice_fields(self, choice: str) -> dict[str, Any]:
        return {"nods": choice}
'''
WIRE_ROW = """NOD = Wire(
    "nod",
    "agent.providers.nod:NodSession",
    "agent.providers._chat_reader:ChatReader",
    thinking=lambda wish: {"extra": {"ponder": wish.tokens}},
)
"""
WIRE_PROVIDER = """    "nod": Provider(
        NOD, Vendor("NOD", "http://127.0.0.1:1/v1", title="Nod"), models=("nod-",), hosts=("127.0.0.1",), native_tools=True
    ),
"""


def test_a_wire_is_its_module_and_a_row(project_copy: Any) -> None:
    """Requests use the wire's headers and its fields for forced calls and thinking; its model list and reader work too."""
    rows, folder = "agent/providers/rows.py", "agent/providers"
    project_copy.write(f"{folder}/nod.py", WIRE)
    project_copy.insert(rows, 'TEXT = Wire("text"', WIRE_ROW)
    project_copy.insert(rows, '    "text": Provider(TEXT', WIRE_PROVIDER)
    source = (project_copy.root / rows).read_text("utf-8").replace("(CHAT, RESPONSES, ", "(CHAT, NOD, RESPONSES, ")
    project_copy.write(rows, source)
    printed = project_copy.run(
        ASKS
        + """
with ChatServer(ChatServer.text("Nods.")) as server:
    environ = {"NOD_BASE_URL": server.base_url, "NOD_API_KEY": "sesame"}
    target, turn = asyncio.run(ask(environ, "nod-1"))
    assert (target.provider, turn.assistant_text, wire_of("nod")) == ("nod", "Nods.", "nod")
    assert server.paths == ["/v1/nod"]
    assert (server.headers[0]["x-nod-key"], server.headers[0]["nod-version"]) == ("sesame", "3")
    assert "authorization" not in server.headers[0]
    assert server.requests[0]["nods"] == "required" and server.requests[0]["ponder"] == 2048

    from agent.config import Config
    from agent.model_choice.catalog import ask_servers, configured_servers
    (offer,) = asyncio.run(ask_servers(configured_servers(Config(), environ), environ, remembers=False))
    assert [(one.name, one.tools) for one in offer.models] == [("nod-1", True), ("nod-2", False)], offer

    from agent.cli.key_checks import check_keys
    assert [one.id for one in check_keys(Config(), {})] == []
    import os
    os.environ |= environ
    assert "key.taken" in [one.id for one in check_keys(Config(), {})]
    assert server.asides[-1][1]["x-nod-key"] == "sesame"

import sys
body = json.dumps({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]})
sys.argv = ["toolcrib", "parse", "--wire", "nod", body]
from agent.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("done")
"""
    )
    assert "Hi" in printed
    assert printed.splitlines()[-1] == "done"


@pytest.mark.parametrize(
    ("provider", "wish", "options"),
    [
        ("chat", "", {}),
        ("chat", "5000", {"extra": {"reasoning_effort": "medium"}}),
        ("responses", "high", {"extra": {"reasoning": {"effort": "high", "summary": "auto"}}}),
        ("anthropic", "low", {"thinking": 2048}),
        ("gemini", "low", {"thinking": "low"}),
        ("gemini", "77", {"thinking": 77}),
        ("text", "low", {}),
        ("a-plugins", "low", {}),
    ],
)
def test_thinking_is_asked_for_as_the_wire_wants_it(provider: str, wish: str, options: dict[str, Any]) -> None:
    assert thinking_options(provider, wish) == options


def test_a_wish_beyond_every_level_is_the_highest() -> None:
    assert ThinkingWish.of("99999") == ThinkingWish(99_999, "high", is_exact=True)


def test_each_vendor_is_named_once_by_the_provider_that_asks_it() -> None:
    assert {name: vendor.title for name, vendor in vendors().items()} == {
        "chat": "OpenAI", "anthropic": "Anthropic", "gemini": "Google Gemini",
    }  # fmt: skip
    assert share_servers("text", "responses")
    assert not share_servers("text", "gemini")
    assert not share_servers("mine", "mine")


@pytest.mark.parametrize("name", WIRES)
def test_every_wire_s_classes_are_there(name: str) -> None:
    wire = WIRES[name]
    assert load(wire.session).__name__ == wire.session.partition(":")[2]
    assert wire.in_text or callable(load(wire.reader)().read_body)
    assert any(one.wire is wire for one in PROVIDERS.values())
