"""The providers and the wires, one row each. Everything special about a provider is in its row.

A provider on an existing wire needs one row in PROVIDERS. A new wire needs its modules, with a subclass of HttpSession, and a
row in WIRES. No wire is imported before it is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from agent.providers.vendor import OPENAI, Vendor
from toolcrib.contract.dataclass import dataclass

_EFFORTS = {"low": 2048, "medium": 8192, "high": 16_384}
"""Thinking tokens of each level, for wires that take a number of tokens."""


@dataclass(frozen=True, slots=True)
class ThinkingWish:
    """The wanted amount of thinking: ``tokens``, and the lowest ``level`` for as many, at most high.

    ``is_exact``: a user gave the number of tokens.
    """

    tokens: int
    level: str
    is_exact: bool

    @classmethod
    def of(cls, configured: str) -> ThinkingWish:
        """Return the requested amount of thinking for low, medium, high, or a number of tokens."""
        is_exact = configured.isdecimal()
        tokens = int(configured) if is_exact else _EFFORTS[configured]
        return cls(tokens, next((level for level, most in _EFFORTS.items() if tokens <= most), "high"), is_exact)


def _no_thinking(wish: ThinkingWish) -> dict[str, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class Wire:
    """A form of requests and replies. ``name`` identifies its native turns in the store.

    ``session`` is its subclass of HttpSession, which does everything over HTTP: headers, forced calls, answers that match a
    schema, the list of models. ``reader`` turns a reply into a turn, for `toolcrib parse`. Both are written "module:Class".
    ``thinking`` returns a session's arguments for a ThinkingWish. ``in_text``: calls are in the text, in a protocol that is
    named or follows from the model. ``has_ids``: a reply's ``id`` identifies it at its server.
    """

    name: str
    session: str
    reader: str = ""
    thinking: Callable[[ThinkingWish], dict[str, Any]] = _no_thinking
    in_text: bool = False
    has_ids: bool = False


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider of models. ``about`` explains its name in the configuration's list; "" if the name is clear.

    ``models`` are prefixes of its models' names, ``hosts`` the names of the vendor's own hosts. ``lists``: without a configured
    model, the server is asked for its models, as it may have only one. ``native_tools``: every model at ``hosts`` has native
    calls.
    """

    wire: Wire
    vendor: Vendor = OPENAI
    models: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    lists: bool = False
    native_tools: bool = False
    about: str = ""


CHAT = Wire(
    "chat",
    "agent.providers.openai_chat:OpenAIChatSession",
    "agent.providers._chat_reader:ChatReader",
    thinking=lambda wish: {"extra": {"reasoning_effort": wish.level}},
)
RESPONSES = Wire(
    "responses",
    "agent.providers.openai_responses:ResponsesSession",
    "agent.providers._responses_reader:ResponsesReader",
    thinking=lambda wish: {"extra": {"reasoning": {"effort": wish.level, "summary": "auto"}}},
    has_ids=True,
)
ANTHROPIC = Wire(
    "anthropic",
    "agent.providers.anthropic:AnthropicSession",
    "agent.providers._anthropic_reader:AnthropicReader",
    thinking=lambda wish: {"thinking": wish.tokens},
)
GEMINI = Wire(
    "gemini",
    "agent.providers.gemini:GeminiSession",
    "agent.providers._gemini_reader:GeminiReader",
    thinking=lambda wish: {"thinking": wish.tokens if wish.is_exact else wish.level},
)
TEXT = Wire("text", "agent.providers.text:TextSession", in_text=True)
WIRES: Mapping[str, Wire] = {wire.name: wire for wire in (CHAT, RESPONSES, ANTHROPIC, GEMINI, TEXT)}

MANUAL = "manual"
"""No model: a user types the calls."""
DEFAULT = "chat"
IN_TEXT = "text"
"""Replaces the default provider for a model without native calls."""
PROVIDERS: Mapping[str, Provider] = {
    "chat": Provider(
        CHAT,
        models=("gpt-", "chatgpt-", "o1", "o3", "o4"),
        lists=True,
        about="OpenAI Chat Completions, which most servers know",
    ),
    "responses": Provider(RESPONSES, lists=True, about="OpenAI Responses"),
    "anthropic": Provider(
        ANTHROPIC,
        Vendor("ANTHROPIC", "https://api.anthropic.com/v1", root="/v1", title="Anthropic"),
        models=("claude-",),
        hosts=("api.anthropic.com",),
        native_tools=True,
    ),
    "gemini": Provider(
        GEMINI,
        Vendor(
            "GEMINI",
            "https://generativelanguage.googleapis.com/v1beta",
            bare="/v1beta",
            more_keys=("GOOGLE_API_KEY",),
            title="Google Gemini",
        ),
        models=("gemini-",),
        hosts=("generativelanguage.googleapis.com",),
    ),
    "text": Provider(TEXT, lists=True, about="chat for models that write their calls as text"),
}


def wire_of(name: str) -> str:
    """Return the name under which the store has a provider's native turns: its wire's, or the name of a plugin's provider."""
    return PROVIDERS[name].wire.name if name in PROVIDERS else name


def thinking_options(name: str, thinking: str) -> dict[str, Any]:
    """Return a session's options for the configured thinking: "", low, medium, high, or a number of tokens."""
    return PROVIDERS[name].wire.thinking(ThinkingWish.of(thinking)) if thinking and name in PROVIDERS else {}


def vendors() -> dict[str, Vendor]:
    """Return each vendor once, by its first provider, which is used to query its servers."""
    found: dict[str, Vendor] = {}
    for name, provider in PROVIDERS.items():
        if provider.vendor not in found.values():
            found[name] = provider.vendor
    return found


def share_servers(one: str, other: str) -> bool:
    """Return whether two names are providers for the servers of one vendor."""
    return one in PROVIDERS and other in PROVIDERS and PROVIDERS[one].vendor is PROVIDERS[other].vendor


def load(place: str) -> Any:
    """Import "module:Class" and return the class."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
