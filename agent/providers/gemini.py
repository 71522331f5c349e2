"""Gemini (generateContent, streamGenerateContent): one conversation as a ProviderSession."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from agent.providers._gemini_contents import GeminiContents
from agent.providers._gemini_reader import GeminiReader
from agent.providers._gemini_tools import GeminiNames, declarations
from agent.providers._history import UNSIGNED, History, encode
from agent.providers._http_session import HttpSession, function_of
from agent.providers._images import pictured
from agent.providers._model_rows import MOST_PAGES, described, get_json, rows_of
from agent.providers._tool_schemas import GEMINI, fitted
from agent.providers.endpoint import ModelInfo
from agent.providers.http import HttpClient
from toolcrib.contract.dataclass import replace
from toolcrib.contract.image import Image
from toolcrib.contract.session import ExecutedCall, OnEvent, ProviderTurn
from tools.dispatch.json_results import as_json


class GeminiSession(HttpSession):
    """A conversation: ``say`` something, then ``stream_turn``. A failed turn may be retried: only whole turns enter the history.

    ``records`` is a stored conversation to resume. ``thinking``: a number of tokens, a level ("low", "high"), or True to let
    the model decide; each of them shows the thinking. None leaves it to the server and shows nothing. ``extra`` are further
    fields of every request; its ``generationConfig`` and ``tools`` (run by Google) are added to ours. All methods belong to one
    event loop.
    """

    key_header = "x-goog-api-key"

    def __init__(
        self,
        client: HttpClient,
        *,
        model: str,
        system: str = "",
        tools: Sequence[Mapping[str, Any]] = (),
        records: Iterable[Mapping[str, Any]] = (),
        stream: bool = True,
        max_tokens: int | None = None,
        thinking: int | str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(client, model, stream=stream)
        self._offered, keys = fitted(map(function_of, tools), GEMINI)
        self._names = GeminiNames((function["name"] for function in self._offered), keys)
        self._json_schema = True
        self._tools = self._encoded_tools(self._offered)
        self._contents = GeminiContents(self._names, model)
        if system:
            self._contents.system(system)
        self._contents.records(records, skip_system=bool(system))
        self._extra = dict(extra or {})
        self._more_tools = [encode(tool) for tool in self._extra.pop("tools", ())]
        self._config: dict[str, Any] = {} if max_tokens is None else {"maxOutputTokens": max_tokens}
        if thinking is not None and thinking is not False:
            self._config["thinkingConfig"] = _thinking(thinking)
        self._config.update(self._extra.pop("generationConfig", {}))

    @classmethod
    async def list_models(cls, client: HttpClient) -> tuple[ModelInfo, ...]:
        """Return the models of the server's list, except those whose listed methods lack ``generateContent``."""
        found: list[ModelInfo] = []
        path = "models?pageSize=1000"
        for _ in range(MOST_PAGES):
            body = await get_json(client, path)
            for row in rows_of(body, "models", client):
                methods = row.get("supportedGenerationMethods")
                if not isinstance(methods, list) or "generateContent" in methods:
                    one = described(row, "name")
                    found.append(replace(one, name=one.name.removeprefix("models/")))
            following = body.get("nextPageToken")
            if not isinstance(following, str) or not following:
                break
            path = f"models?pageSize=1000&pageToken={quote(following, safe='')}"
        return tuple(found)

    def say(self, text: str, images: Sequence[Image] = ()) -> None:
        """Add the user's next message and images."""
        self._contents.user(text, images)

    async def append_tool_results(self, turn: ProviderTurn, executed: Sequence[ExecutedCall]) -> None:
        """Add the results of a turn, and before them the turn's content if the history does not end with it (004-15).

        Raises BadRequest if the turn has no such content.
        """
        calls = [call.id for call in turn.tool_calls]
        if not self._contents.expects(calls):
            self._contents.model_content(turn.assistant_turn, calls)
        self._contents.results(((one.call.id, as_json(one)) for one in executed), pictured(executed))

    # -- the wire ------------------------------------------------------------------------------------------------------

    def _reader(self, on_event: OnEvent) -> GeminiReader:
        return GeminiReader(on_event, self._names.own, server=self._server)

    @property
    def _history(self) -> History:
        return self._contents

    def _took(self, turn: ProviderTurn) -> None:
        self._contents.model_content(turn.assistant_turn, [call.id for call in turn.tool_calls])

    @property
    def path(self) -> str:  # type: ignore[override] # elsewhere a constant; here the model is part of it
        model = self.model if "/" in self.model else f"models/{self.model}"
        method = "streamGenerateContent?alt=sse" if self._stream else "generateContent"
        return f"{quote(model, safe='/@.')}:{method}"

    def _body(self) -> bytes:
        fields = dict(self._extra)
        if config := {**self._config, **self._steer.format()}:
            fields["generationConfig"] = config
        if self._tools:
            fields.update(self._steer.choice())
        rest = encode(fields)[1:-1]
        tools = [b'{"functionDeclarations":' + self._tools + b"}", *self._more_tools] if self._tools else self._more_tools
        listed = b'"tools":[' + b",".join(tools) + b"]" if tools else b""
        # constant parts go first: a cache that compares requests as bytes then covers them
        return b"{" + b",".join(filter(None, (listed, rest, self._contents.fields()))) + b"}"

    def _encoded_tools(self, functions: Sequence[Mapping[str, Any]]) -> bytes:
        return encode(declarations(functions, self._names, json_schema=self._json_schema)) if functions else b""

    def _choice_fields(self, choice: str) -> dict[str, Any]:
        config: dict[str, Any] = {"mode": "NONE" if choice == "none" else "ANY"}
        if choice not in ("none", "required"):
            config["allowedFunctionNames"] = [self._names.wire(choice)]
        return {"toolConfig": {"functionCallingConfig": config}}

    def _schema_fields(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return fields of ``generationConfig``."""
        return {"responseMimeType": "application/json", "responseJsonSchema": schema}

    def _adapt(self, said: str) -> bool:
        if self._tools and self._json_schema and re.search(r"parameters_?json_?schema", said):
            self._json_schema = False
            self._tools = self._encoded_tools(self._offered)
        elif UNSIGNED.search(said):  # checked before "thinking", because this refusal may link to a page about thinking
            return self._contents.sign()
        elif "thinkingConfig" in self._config and re.search(r"thinking|thoughts", said):
            del self._config["thinkingConfig"]
        else:
            return False
        return True


def _thinking(wanted: int | str) -> dict[str, Any]:
    config: dict[str, Any] = {"includeThoughts": True}
    if isinstance(wanted, str):
        config["thinkingLevel"] = wanted
    elif not isinstance(wanted, bool):
        config["thinkingBudget"] = wanted
    return config
