"""The protocols by name. ``auto`` reads any of them, and is used for models whose template is unknown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from agent.protocols import _prompt
from agent.protocols._fences import fences_of
from agent.protocols._made import Definitions
from agent.protocols._stream import StreamReader
from agent.protocols.json_object import JsonObjectProtocol, JsonObjectReader
from toolcrib.contract.errors import ConfigError
from toolcrib.contract.session import ExecutedCall, TextProtocol, TextReader, Thinking
from toolcrib.contract.types import Json, ToolCall

_Prompt = Callable[[str, Sequence[Mapping[str, Json]]], str]


class FencedProtocol:
    """Calls between the tags of some dialects, or (``bare``) at the beginning of a reply.

    Results are sent back as one user message, because a model without native tools has no other role for them.
    """

    def __init__(self, name: str, dialects: Sequence[str], prompt: _Prompt, *, bare: bool = False, whole: bool = False) -> None:
        self.name = name
        self._fences = fences_of(dialects) if dialects else ()
        self._prompt = prompt
        self._bare, self._whole = bare, whole

    def render_tools(self, definitions: Sequence[Mapping[str, Json]], *, instructions: str = "") -> str:
        return self._prompt(instructions, definitions)

    def reader(self, definitions: Sequence[Mapping[str, Json]], *, thinking: Thinking = "maybe") -> TextReader:
        known = Definitions(definitions)

        def whole() -> TextReader:
            return JsonObjectReader(known)

        return StreamReader(
            self._fences,
            known,
            thinking=thinking,
            bare=self._bare,
            one_variant=self.name == "tags",
            whole=whole if self._whole else None,
            fault_code="invalid_json" if self.name == "command" else "",
            harmony=self.name in ("harmony", "auto"),
        )

    def render_results(self, executed: Sequence[ExecutedCall]) -> Sequence[Mapping[str, Json]]:
        return _prompt.results_message(executed)

    def render_recorded(self, results: Sequence[Mapping[str, Json]]) -> Sequence[Mapping[str, Json]]:
        named = [(str(one["name"]), _prompt.recorded_result(one)) for one in results]
        return [{"role": "user", "content": _prompt.results_text(named)}]

    def render_reply(self, text: str, calls: Sequence[ToolCall]) -> str:
        return (_prompt.command_reply if self.name == "command" else _prompt.tags_reply)(text, calls)


def native_reader(definitions: Sequence[Mapping[str, Json]]) -> StreamReader:
    """Return a reader that finds a call at the end of a text whose calls the server should have read."""
    return StreamReader(fences_of(_NATIVE), Definitions(definitions), thinking="closed", bare=True, native=True, harmony=True)


_ALL = (
    "hermes", "qwen_xml", "glm", "gemma", "kimi", "deepseek", "mistral", "minimax", "pythonic", "llama", "granite", "command"
)  # fmt: skip
_NATIVE = tuple(name for name in _ALL if name != "command")
_TAGS, _HERMES = _prompt.tags_prompt, _prompt.hermes_prompt
_PROTOCOLS: dict[str, TextProtocol] = {
    protocol.name: protocol
    for protocol in (
        FencedProtocol("auto", _ALL, _TAGS, bare=True, whole=True),
        FencedProtocol("tags", ("tags",), _TAGS),
        JsonObjectProtocol(),
        FencedProtocol("command", ("command",), _prompt.command_prompt),
        FencedProtocol("hermes", ("hermes",), _HERMES),
        FencedProtocol("qwen_xml", ("qwen_xml", "hermes"), _HERMES, bare=True),
        FencedProtocol("glm", ("glm", "hermes"), _HERMES),
        FencedProtocol("gemma", ("gemma", "tags"), _TAGS),
        FencedProtocol("kimi", ("kimi", "hermes"), _HERMES),
        FencedProtocol("deepseek", ("deepseek", "hermes"), _HERMES),
        FencedProtocol("mistral", ("mistral", "hermes"), _HERMES, bare=True),
        FencedProtocol("minimax", ("minimax", "hermes"), _HERMES),
        FencedProtocol("harmony", ("hermes",), _HERMES),
        FencedProtocol("pythonic", ("pythonic", "hermes"), _HERMES, bare=True),
        FencedProtocol("llama_json", ("llama", "hermes"), _HERMES, bare=True),
        FencedProtocol("granite", ("granite", "hermes"), _HERMES),
    )
}
NAMES = tuple(_PROTOCOLS)

_BY_MODEL: tuple[tuple[str, str], ...] = (
    (r"qwen[-_.]?3[-_.]?(5|coder)|qwen.*coder|seed[-_]?oss|step[-_]?3|minicpm5", "qwen_xml"),
    (r"glm|longcat|laguna|iquest|k2[-_]?horizon|hunyuan|\bhy[-_]?v?[34]", "glm"),
    (r"kimi|moonshot", "kimi"),
    (r"deepseek(?!.*distill)", "deepseek"),
    (r"mistral|ministral|devstral|magistral|codestral", "mistral"),
    (r"gpt-oss", "harmony"),
    (r"minimax", "minimax"),
    (r"gemma", "gemma"),
    (r"llama-?4|lfm2|olmo", "pythonic"),
    (r"llama-?3", "llama_json"),
    (r"qwen|hermes|qwq", "hermes"),
    (r"granite|gigachat|plamo|inkling|solar[-_]?open|intern[-_]?s", "granite"),
)


def find_protocol(name: str) -> TextProtocol:
    """Return a protocol by name. Raises ConfigError, which lists the names."""
    try:
        return _PROTOCOLS[name]
    except KeyError:
        raise ConfigError(f"unknown text protocol {name!r}; choose one of {', '.join(_PROTOCOLS)}") from None


def protocol_for_model(model: str) -> TextProtocol:
    """Return the protocol that a model was trained on, if the model's name shows it; else ``auto``."""
    name = next((name for pattern, name in _BY_MODEL if re.search(pattern, model, re.IGNORECASE)), "auto")
    return _PROTOCOLS[name]
