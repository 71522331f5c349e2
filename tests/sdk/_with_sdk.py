"""Runs in the virtual environment with the official SDKs: python _with_sdk.py WIRE BASE_URL < the request bodies

Prints {"refused": the faults that the SDK's own request types find in each body, "" for none,
"replies": [{"text", "calls": [[name, arguments]]}]}, for two replies of the server at BASE_URL: one streamed, one whole.
"""

from __future__ import annotations

import json
import sys
import typing
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pydantic

Reply = dict[str, Any]


# -- do their types accept our requests? -----------------------------------------------------------------------------------


def refused(request_type: Any, bodies: list[Any]) -> list[str]:
    _forbid_more(request_type, set())
    adapter = pydantic.TypeAdapter(request_type)
    return [_said(partial(_check, adapter, body)) for body in bodies]


def _check(adapter: pydantic.TypeAdapter[Any], body: Any) -> None:
    _consume(adapter.validate_python(body))


def _said(check: Callable[[], object]) -> str:
    try:
        check()
    except pydantic.ValidationError as error:
        return str(error)
    return ""


def _forbid_more(annotation: Any, seen: set[Any]) -> None:
    """Make unknown fields an error in every dictionary type that the annotation contains."""
    if typing.is_typeddict(annotation) or hasattr(annotation, "__required_keys__"):
        if annotation in seen:
            return
        seen.add(annotation)
        annotation.__pydantic_config__ = pydantic.ConfigDict(extra="forbid", arbitrary_types_allowed=True)
        for inner in typing.get_type_hints(annotation, include_extras=True).values():
            _forbid_more(inner, seen)
    elif isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel) and annotation not in seen:
        seen.add(annotation)  # replies may be sent back, in the form of replies too
        for field in annotation.model_fields.values():
            _forbid_more(field.annotation, seen)
        annotation.model_config["extra"] = "forbid"
        annotation.model_rebuild(force=True)
    for inner in typing.get_args(annotation):
        _forbid_more(inner, seen)


def _consume(value: Any) -> None:
    """Read a value completely, because iterables are checked while they are read."""
    if isinstance(value, dict):
        for inner in value.values():
            _consume(inner)
    elif not isinstance(value, (str, bytes)) and hasattr(value, "__iter__"):
        for inner in value:
            _consume(inner)


def refused_by_gemini(bodies: list[Any]) -> list[str]:
    from google.genai import types

    kinds: dict[str, Any] = {
        "contents": list[types.Content],
        "systemInstruction": types.Content,
        "tools": list[types.Tool],
        "generationConfig": types.GenerationConfig,
    }
    adapters = {name: pydantic.TypeAdapter(kind) for name, kind in kinds.items()}

    def check(body: Any) -> str:
        """Check each field, because in the SDK a request is made of arguments."""
        said = [f"no such field: {name}" for name in body.keys() - kinds.keys()]
        known = [(adapters[name], json.dumps(body[name])) for name in body.keys() & kinds.keys()]
        return "".join([*said, *(_said(partial(adapter.validate_json, raw)) for adapter, raw in known)])

    return [check(body) for body in bodies]


# -- what their clients read -----------------------------------------------------------------------------------------------


def read_chat(base_url: str) -> Iterator[Reply]:
    import openai

    client = openai.OpenAI(base_url=f"{base_url}/v1", api_key="x", max_retries=0)
    asked: Any = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    with client.chat.completions.stream(**asked) as stream:
        for _ in stream:
            pass
        replies = [stream.get_final_completion()]
    replies.append(client.chat.completions.create(**asked))
    for reply in replies:
        message = reply.choices[0].message
        calls = [[call.function.name, json.loads(call.function.arguments)] for call in message.tool_calls or ()]
        yield {"text": message.content or "", "calls": calls}


def read_responses(base_url: str) -> Iterator[Reply]:
    import openai

    client = openai.OpenAI(base_url=f"{base_url}/v1", api_key="x", max_retries=0)
    with client.responses.stream(model="m", input="hi") as stream:
        for _ in stream:
            pass
        replies = [stream.get_final_response()]
    replies.append(client.responses.create(model="m", input="hi"))
    for reply in replies:
        calls = [[item.name, json.loads(item.arguments)] for item in reply.output if item.type == "function_call"]
        yield {"text": reply.output_text, "calls": calls}


def read_anthropic(base_url: str) -> Iterator[Reply]:
    import anthropic

    client = anthropic.Anthropic(base_url=base_url, api_key="x", max_retries=0)
    asked: Any = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    with client.messages.stream(**asked) as stream:
        replies = [stream.get_final_message()]
    replies.append(client.messages.create(**asked))
    for reply in replies:
        text = "".join(block.text for block in reply.content if block.type == "text")
        yield {"text": text, "calls": [[block.name, block.input] for block in reply.content if block.type == "tool_use"]}


def read_gemini(base_url: str) -> Iterator[Reply]:
    from google import genai

    client = genai.Client(api_key="x", http_options={"base_url": base_url})
    asked: Any = {"model": "m", "contents": "hi"}
    streamed = list(client.models.generate_content_stream(**asked))
    for pieces in (streamed, [client.models.generate_content(**asked)]):
        parts = [part for piece in pieces for part in piece.candidates[0].content.parts or ()]
        text = "".join(part.text for part in parts if part.text and not part.thought)
        calls = [[part.function_call.name, part.function_call.args] for part in parts if part.function_call]
        yield {"text": text, "calls": calls}


def request_type(wire: str) -> Any:
    if wire == "chat":
        from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

        return CompletionCreateParamsStreaming
    if wire == "responses":
        from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

        return ResponseCreateParamsStreaming
    from anthropic.types.message_create_params import MessageCreateParamsStreaming

    return MessageCreateParamsStreaming


READ: dict[str, Callable[[str], Iterator[Reply]]] = {
    "chat": read_chat,
    "responses": read_responses,
    "anthropic": read_anthropic,
    "gemini": read_gemini,
}


def main() -> None:
    wire, base_url = sys.argv[1:]
    bodies = json.load(sys.stdin)
    wrong = refused_by_gemini(bodies) if wire == "gemini" else refused(request_type(wire), bodies)
    print(json.dumps({"refused": wrong, "replies": list(READ[wire](base_url))}))


if __name__ == "__main__":
    main()
