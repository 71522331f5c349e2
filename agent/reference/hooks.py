"""A page for each hook that a plugin may implement."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agent.reference.contract import types_in
from agent.reference.page import Page, block, code, doc_of, index, rows

_WORDS = """\
A plugin implements hooks with `@toolcrib.hookimpl`. They may be sync or async, and take only the arguments that they need. A
misspelt hook is refused when the plugin loads. [Plugins](../../plugins.md) has the first steps."""


def pages() -> Iterator[Page]:
    """Yield an index and a page for each hook."""
    from toolcrib.contract.hooks import GROUPS, declared_in

    found = [(group, name, hook) for group in GROUPS for name, hook in declared_in(group).items()]
    tables = "\n\n".join(_table(group, declared_in(group)) for group in GROUPS)
    yield index("reference/hooks/index", "Hooks", f"{_WORDS}\n\n{tables}", [name for _, name, _ in found])
    for group, name, hook in found:
        signature = inspect.signature(hook)
        own = list(signature.parameters.values())[1:]
        shown = f"def {name}{signature.replace(parameters=own)}"
        text = [f"# {code(name)}", "", f"*{doc_of(group)}*", "", block(shown.replace("'", ""), "python"), "", doc_of(hook), ""]
        text += [types_in(shown, "../"), ""]
        yield Page(f"reference/hooks/{name}", "\n".join(text))


def _table(group: type, hooks: Mapping[str, Callable[..., Any]]) -> str:
    """Return a group's text, and a row for each of its hooks: its arguments, and the first paragraph of its docstring."""
    made = []
    for name, hook in hooks.items():
        arguments = ", ".join(list(inspect.signature(hook).parameters)[1:])
        first, _, _ = doc_of(hook).partition("\n\n")
        made.append((f"[{code(f'{name}({arguments})')}]({name}.md)", " ".join(first.split())))
    return f"*{doc_of(group)}*\n\n{rows(('hook', 'purpose'), made)}"
