"""A page for each provider of models."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from agent.reference.page import Page, code, doc_of, index

_WORDS = """\
A provider is an API of model servers, selected by `model.provider`. Plugins can add providers with the hook
[`register_provider`](../hooks/register_provider.md)."""


def pages() -> Iterator[Page]:
    """Yield an index and a page for each provider."""
    from agent.providers.rows import MANUAL, PROVIDERS

    yield index("reference/providers/index", "Providers", _WORDS, [*PROVIDERS, MANUAL])
    for name, one in PROVIDERS.items():
        lines = [f"# {code(name)}", "", doc_of(import_module(one.wire.session.partition(":")[0])), ""]
        lines += [
            f"- Its key is in {code(one.vendor.prefix + '_API_KEY')}, or in the variable that `model.api_key_env` names.",
            f"- Its own server: {code(one.vendor.base_url)}.",
        ]
        if one.models:
            lines.append(
                f"- Models whose names begin with {', '.join(map(code, one.models))} use it if that vendor's key is set."
            )
        if one.lists:
            lines.append("- Its server can list its models: `toolcrib models`.")
        if one.wire.in_text:
            lines.append("- Calls are part of the model's text, in a protocol that `model.protocol` names or the model implies.")
        lines += ["", f"Try it: `toolcrib chat --provider {name}`. [Settings of the model](../settings/model.md).", ""]
        yield Page(f"reference/providers/{name}", "\n".join(lines))
    manual = (
        'No model: you call tools by hand, such as `@read_file {"path": "README.md"}`. It is the default until a model is set.'
    )
    yield Page(f"reference/providers/{MANUAL}", f"# {code(MANUAL)}\n\n{manual}\n")
