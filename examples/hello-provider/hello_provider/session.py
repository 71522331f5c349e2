"""A conversation over Ollama's own API, /api/chat, as a toolcrib.ProviderSession."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolcrib import (
    BadRequest,
    ConfigError,
    ConnectionFailed,
    ExecutedCall,
    Image,
    Overloaded,
    ProviderError,
    ProviderTurn,
    StreamBroken,
    StreamEvent,
    ToolCall,
)

if TYPE_CHECKING:
    import httpx

_DEFAULT = "http://127.0.0.1:11434"
_MISSING = "no result: the call was interrupted"


class OllamaSession:
    """A conversation: call ``say``, then ``stream_turn``; see toolcrib.ProviderSession."""

    def __init__(
        self,
        *,
        model: str,
        base_url: str = "",
        api_key: str = "",
        system: str = "",
        tools: Sequence[Mapping[str, Any]] = (),
        records: Iterable[Mapping[str, Any]] = (),
        stream: bool = True,
        max_tokens: int | None = None,
        **more: Any,
    ) -> None:
        if not model:
            raise ConfigError("name a model: --model NAME, or model.name in the configuration")
        self.model = model
        self._url = f"{base_url or _DEFAULT}/api/chat"
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._fields: dict[str, Any] = {"model": model, "stream": stream}
        if tools:
            self._fields["tools"] = [tool if "function" in tool else {"type": "function", "function": tool} for tool in tools]
        if max_tokens is not None:
            self._fields["options"] = {"num_predict": max_tokens}
        self._messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
        self._open: list[ToolCall] = []
        self._client: httpx.AsyncClient | None = None
        for record in records:
            self._remember(record)

    def say(self, text: str, images: Sequence[Image] = ()) -> None:
        self._answer({})
        self._messages.append({"role": "user", "content": text, **_shown(images)})

    async def stream_turn(self, on_event: Callable[[StreamEvent], None]) -> ProviderTurn:
        """Return the next turn. It enters the history when it is complete, so a failed turn can be requested again."""
        import httpx  # too slow to import at start

        self._answer({})
        self._client = self._client or httpx.AsyncClient(timeout=httpx.Timeout(120.0, connect=10.0))
        reply = _Reply(on_event)
        body = {**self._fields, "messages": self._messages}
        try:
            async with self._client.stream("POST", self._url, json=body, headers=self._headers) as response:
                if response.status_code != 200:
                    raise _refusal(response.status_code, (await response.aread()).decode("utf-8", "replace"))
                async for line in response.aiter_lines():
                    reply.take(line)
        except httpx.ConnectError as error:
            raise ConnectionFailed(f"could not connect to {self._url}: {error}; start it with `ollama serve`") from None
        except httpx.HTTPError as error:
            raise StreamBroken(f"the connection to {self._url} broke: {error}", text=reply.text) from None
        turn = reply.finish()
        self._messages.append(turn.assistant_turn)
        self._open = list(turn.tool_calls)
        return turn

    async def append_tool_results(self, turn: ProviderTurn, executed: Sequence[ExecutedCall]) -> None:
        self._answer({one.call.id: one.result.to_json_text() for one in executed})

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    # -- the history -----------------------------------------------------------------------------------------------

    def _answer(self, texts: Mapping[str, str]) -> None:
        """Add one result for each call of the last turn, in the order of the calls, because this API has no ids."""
        for call in self._open:
            content = texts.get(call.id, _MISSING)
            self._messages.append({"role": "tool", "tool_name": call.name, "content": content})
        self._open = []

    def _remember(self, record: Mapping[str, Any]) -> None:
        """Add a stored turn, of any provider."""
        if record["role"] == "results":
            self._answer({one["call_id"]: one["text"] for one in record["results"]})
            return
        self._answer({})
        if record["role"] == "system" and self._messages[:1]:
            return  # there is a newer one
        images = record.get("images", ()) if record["role"] == "user" else ()
        message = {"role": record["role"], "content": record["text"], **_shown([Image.from_json(one) for one in images])}
        calls = [ToolCall(call["id"], call["name"], call["args"]) for call in record.get("calls") or ()]
        if calls:
            message["tool_calls"] = [{"function": {"name": call.name, "arguments": call.args}} for call in calls]
        self._messages.append(message)
        self._open = calls


def _shown(images: Sequence[Image]) -> dict[str, Any]:
    return {"images": [image.base64 for image in images]} if images else {}


class _Reply:
    """Reader of one JSON object per line."""

    def __init__(self, on_event: Callable[[StreamEvent], None]) -> None:
        self._on_event = on_event
        self._last: dict[str, Any] = {}
        self._thinking = ""
        self._wire: list[Any] = []
        self._calls: list[ToolCall] = []
        self.text = ""

    def take(self, line: str) -> None:
        if not line.strip():
            return
        try:
            piece = json.loads(line)
            message = piece.get("message") or {}
        except (ValueError, AttributeError):
            raise StreamBroken(f"Ollama sent something that is not its JSON: {line[:200]!r}", text=self.text) from None
        if piece.get("error"):
            raise Overloaded(f"Ollama failed in the middle of a reply: {piece['error']}", text=self.text)
        if thinking := message.get("thinking"):
            self._thinking += thinking
            self._on_event(StreamEvent("thinking_delta", thinking))
        if text := message.get("content"):
            self.text += text
            self._on_event(StreamEvent("assistant_delta", text))
        for call in message.get("tool_calls") or ():
            self._call(call)
        if piece.get("done"):
            self._last = piece

    def _call(self, call: Mapping[str, Any]) -> None:
        function = call.get("function") or {}
        args, fault = function.get("arguments") or {}, None
        if not isinstance(args, dict):
            args, fault = {"INVALID_JSON": args}, "the arguments are not a JSON object; send one"
        made = ToolCall(ToolCall.new_id(), str(function.get("name") or ""), args, fault)
        self._calls.append(made)
        self._wire.append(call)
        self._on_event(StreamEvent("tool_call_delta", json.dumps(args, ensure_ascii=False), made.id, made.name))

    def finish(self) -> ProviderTurn:
        if not self._last:
            raise StreamBroken("Ollama ended the connection before the reply was complete", text=self.text)
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self._wire:
            message["tool_calls"] = self._wire
        counts = {"input": self._last.get("prompt_eval_count"), "output": self._last.get("eval_count")}
        reason = self._last.get("done_reason")
        calls = self._calls
        if reason not in (None, "stop"):  # calls after another end do not run; each still gets its result
            fault = f"the reply ended with {reason!r}, so none of its calls was run"
            calls = [ToolCall(call.id, call.name, call.args, call.fault or fault) for call in calls]
        return ProviderTurn(
            self.text,
            tuple(calls),
            message,
            {name: count for name, count in counts.items() if isinstance(count, int)},
            "tool_calls" if self._calls else {"stop": "stop", "length": "length"}.get(str(reason), "other"),
            str(self._last.get("model") or ""),
            self._thinking,
        )


def _refusal(status: int, body: str) -> ProviderError:
    kind = Overloaded if status >= 500 else BadRequest
    return kind(f"Ollama refused the request ({status}): {body[:500]}", status=status, body=body[:2000])
