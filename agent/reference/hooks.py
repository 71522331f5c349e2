"""A page for each hook that a plugin may implement."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from agent.reference.contract import types_in
from agent.reference.page import Page, block, code, doc_of, index

_WORDS = """\
What a plugin may implement, with `@toolcrib.hookimpl`; sync or async, as it likes, and with only the arguments that it wants.
A mistyped hook is refused when the plugin loads. [Plugins](../../plugins.md) has the first steps."""


def pages() -> Iterator[Page]:
    """Yield an index and a page for each hook."""
    from toolcrib.contract import hooks as _hooks

    groups = [one for one in vars(_hooks).values() if inspect.isclass(one) and one.__module__ == _hooks.__name__]
    found = [(group, name, hook) for group in groups for name, hook in vars(group).items() if inspect.isfunction(hook)]
    yield index("reference/hooks/index", "Hooks", _WORDS, [name for _, name, _ in found])
    for group, name, hook in found:
        signature = inspect.signature(hook)
        own = list(signature.parameters.values())[1:]
        shown = f"def {name}{signature.replace(parameters=own)}"
        text = [f"# {code(name)}", "", f"*{doc_of(group)}*", "", block(shown.replace("'", ""), "python"), "", doc_of(hook), ""]
        text += [types_in(shown, "../"), ""]
        yield Page(f"reference/hooks/{name}", "\n".join(text))
