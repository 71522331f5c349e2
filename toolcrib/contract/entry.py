"""A registered tool, and how its handler is called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, TypeAlias

from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.display import NO_DISPLAY, ToolDisplay
from toolcrib.contract.effects import Effect
from toolcrib.contract.errors import RegistrationError
from toolcrib.contract.state import StateKey
from toolcrib.contract.types import CheckFn, Handler, Json, Kind

Invoke: TypeAlias = Callable[[dict[str, Json], ToolCallContext, Mapping[str, Any]], Any]
"""The form that every handler is converted to: (args, ctx, the keywords from the caller of dispatch)."""

EffectsFn: TypeAlias = Callable[[dict[str, Json], ToolCallContext], "Sequence[Effect] | Awaitable[Sequence[Effect]]"]
DynamicSchema: TypeAlias = Callable[[dict[str, Json], frozenset[str]], dict[str, Json]]
"""(a copy of the tool's function schema, the names of all available tools) -> the schema to show."""

Changes: TypeAlias = Literal["unknown", "nothing", "declared", "kept", "command"]
"""Changes that a call may make. ``nothing``: none outside of the conversation. ``declared``: only changes that its effects
declare; calls that it makes in turn are judged separately. ``kept``: only changes of files whose old content is kept
for an undo. ``command``: any change that the command in its argument ``command`` makes.
"""
Need: TypeAlias = Literal["", "memory", "jobs", "delegates", "chats"]

_BUILT_IN = "tools."


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEntry:
    """A tool in the registry. It holds all that is special about a tool: no other part of toolcrib knows the tool by name.

    If ``handler`` is None, the agent loop supplies it (as for todo, memory and delegate_task).
    """

    name: str
    toolset: str
    schema: Mapping[str, Json]
    """The function's schema: name, description, parameters. Read-only."""
    handler: Handler | None
    invoke: Invoke | None
    id: str = ""
    check_fn: CheckFn | None = None
    requires_env: tuple[str, ...] = ()
    """Variables that the tool needs. Users see the missing ones if ``check_fn`` returns a false value without a reason."""
    is_async: bool = False
    description: str = ""
    emoji: str = ""
    kind: Kind = "other"
    parallel_safe: bool = False
    """If True, a call may run beside other such calls of the same turn."""
    interactive: bool = False
    """If True, a call needs a person, and never runs beside other calls."""
    repeatable: bool = False
    """If True, a second equal call changes nothing more than the first."""
    timeout: float | None = None
    """Time limit of a call in seconds, or None. A sync handler with a time limit runs in a worker thread."""
    max_result_chars: int | None = None
    effects: EffectsFn | None = field(default=None, repr=False)
    state: tuple[StateKey[Any], ...] = ()
    """Keys of the state that its calls read and write. Values of scope principal and profile are read before each call."""
    dynamic_schema: DynamicSchema | None = field(default=None, repr=False)
    validate: Callable[[Mapping[str, Json]], None] | None = field(default=None, repr=False)
    module: str = ""
    """Module that registered the tool."""
    display: ToolDisplay = NO_DISPLAY
    """The display of the tool's calls on screens."""
    file: str = ""
    """The argument that names the file a call works on: a summary of the conversation names such files."""
    changes: Changes = "unknown"
    """The changes that a call may make: see ``Changes``.

    In the modes ``plan`` and ``confirm-edits`` a call of the kind ``other`` without effects passes if this is ``nothing`` or
    ``declared``. toolcrib trusts the declaration of a plugin's tool: the tool could claim the kind ``read`` just as
    well, and a user who enables a plugin trusts its code. With the kind ``edit`` or ``execute`` both values are
    refused at registration.
    """
    lasting: str = ""
    """The reason why a call does not pass in the modes ``plan`` and ``confirm-edits``, worded to follow the tool's name: "changes
    what you remember".
    """
    needs: Need = ""
    """A part of toolcrib that the tool needs. If the configuration disables that part, the tool is not granted."""
    polls: bool | Callable[[Mapping[str, Json]], bool] = False
    """If True, a call waits for a change, so equal calls may return equal results many times. A function decides by the call's
    arguments.

    A run ends if its turns repeat the same calls with the same results ``limits.repeats`` times in a row; calls that wait for a
    change do not count.
    """

    @property
    def is_built_in(self) -> bool:
        """True if a module of toolcrib itself registered the tool. Such a tool acts only through its session's environment.

        Plugins, and the tool sources that they add, can't register such an entry.
        """
        return self.module.startswith(_BUILT_IN)

    @property
    def claims(self) -> str:
        """The identity that the tool claims, as JSON. The text stays the same as long as the name means the same tool."""
        import json

        claimed = [self.name, self.module, self.kind, self.toolset, self.schema]
        return json.dumps(claimed, sort_keys=True, separators=(",", ":"), ensure_ascii=True)

    @property
    def definition(self) -> dict[str, Json]:
        """The definition in OpenAI's form: ``{"type": "function", "function": {...}}``."""
        return {"type": "function", "function": self.schema}


def is_async_callable(function: Any) -> bool:
    """Return whether calling the function gives a coroutine. Looks through functools.partial and at ``__call__``."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or (
        not inspect.isroutine(function)
        and not inspect.isclass(function)
        and inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - the kind of __call__ matters, not whether it exists
    )


def bind_handler(handler: Handler) -> Invoke:
    """Return a handler in the form that the dispatcher calls. Used once, at registration.

    The handler may take ``(args)``, ``(args, ctx)`` and any of ``**kwargs`` or named keywords that the caller of dispatch passes
    (task_id, user_task). A parameter named ctx gets the context at any position; without one, a required second parameter gets
    it. Raises RegistrationError if the handler takes no positional argument, or can't be called.
    """
    if not callable(handler):
        raise RegistrationError(f"handler {handler!r} is not a function: def handle(args, ctx): ...")
    refuse_generator(handler)
    try:
        parameters = list(inspect.signature(handler).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature: the plain form
        return lambda args, ctx, extra: handler(args)
    kinds = inspect.Parameter
    positional = [p for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    variadic = any(p.kind is kinds.VAR_POSITIONAL for p in parameters)
    if not positional and not variadic:
        raise RegistrationError(
            f"handler {handler!r} must take the arguments as its first parameter: def {_name(handler)}(args, ctx): ..."
        )
    by_name = any(p.name == "ctx" for p in parameters[1:])
    takes_ctx = len(positional) > 1 and (positional[1].name == "ctx" or (not by_name and positional[1].default is kinds.empty))
    keywords = [p.name for p in parameters if p.kind is kinds.KEYWORD_ONLY] + [
        p.name for p in positional[2 if takes_ctx else 1 :]
    ]
    takes_all = any(p.kind is kinds.VAR_KEYWORD for p in parameters)
    return _form(handler, takes_ctx=takes_ctx, keywords=frozenset(keywords), takes_all=takes_all)


def refuse_generator(handler: Handler) -> None:
    """Raise RegistrationError for a generator function, because a generator is not a result."""
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise RegistrationError(
            f"handler {_name(handler)!r} is a generator: return one value, and report progress with ctx.report_activity"
        )


def _form(handler: Handler, *, takes_ctx: bool, keywords: frozenset[str], takes_all: bool) -> Invoke:
    if not keywords and not takes_all:
        if takes_ctx:
            return lambda args, ctx, extra: handler(args, ctx)
        return lambda args, ctx, extra: handler(args)

    def invoke(args: dict[str, Json], ctx: ToolCallContext, extra: Mapping[str, Any]) -> Any:
        named = dict(extra) if takes_all else {key: value for key, value in extra.items() if key in keywords}
        if "ctx" in keywords:
            named["ctx"] = ctx
        return handler(args, ctx, **named) if takes_ctx else handler(args, **named)

    return invoke


def _name(handler: Handler) -> str:
    return getattr(handler, "__name__", "handler")
