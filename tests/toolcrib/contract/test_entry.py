"""Every form that a handler may have (003-1)."""

from __future__ import annotations

import functools
from typing import Any, cast

import pytest

from toolcrib import RegistrationError, ToolCallContext
from toolcrib.contract.entry import bind_handler, is_async_callable

ARGS: dict[str, Any] = {"a": 1}
CTX = cast("ToolCallContext", "the context")
EXTRA = {"task_id": "t1", "user_task": "tidy up"}


class Handlers:
    def method(self, args: Any, ctx: Any) -> Any:
        return args, ctx

    def __call__(self, args: Any) -> Any:
        return args, "called"


def plain(args: Any) -> Any:
    return (args,)


def with_ctx(args: Any, ctx: Any) -> Any:
    return args, ctx


def second_is_ctx(args: Any, context: Any) -> Any:
    return args, context


def ctx_by_default(args: Any, ctx: Any = None) -> Any:
    return args, ctx


def ctx_last(args: Any, task_id: Any = None, ctx: Any = None) -> Any:
    return args, task_id, ctx


def ctx_required_last(args: Any, task_id: Any, ctx: Any) -> Any:
    return args, task_id, ctx


def keyword_ctx(args: Any, *, ctx: Any) -> Any:
    return args, ctx


def named(args: Any, task_id: Any = None) -> Any:
    return args, task_id


def keyword_only(args: Any, *, user_task: Any = None, unknown: Any = 7) -> Any:
    return args, user_task, unknown


def args_named_ctx(ctx: Any, more: str = "default") -> Any:
    return ctx, more


def everything(args: Any, **kwargs: Any) -> Any:
    return args, kwargs


def ctx_and_everything(args: Any, ctx: Any, **kwargs: Any) -> Any:
    return args, ctx, kwargs


def star(*args: Any) -> Any:
    return args


@pytest.mark.parametrize(
    ("handler", "received"),
    [
        (plain, (ARGS,)),
        (with_ctx, (ARGS, CTX)),
        (second_is_ctx, (ARGS, CTX)),
        (ctx_by_default, (ARGS, CTX)),
        (ctx_last, (ARGS, "t1", CTX)),
        (ctx_required_last, (ARGS, "t1", CTX)),
        (keyword_ctx, (ARGS, CTX)),
        (named, (ARGS, "t1")),
        (keyword_only, (ARGS, "tidy up", 7)),
        (everything, (ARGS, EXTRA)),
        (ctx_and_everything, (ARGS, CTX, EXTRA)),
        (star, (ARGS,)),
        (Handlers().method, (ARGS, CTX)),
        (Handlers(), (ARGS, "called")),
        (functools.partial(named, task_id="bound"), (ARGS, "t1")),
        (functools.partial(ctx_last, ctx="bound"), (ARGS, "t1", CTX)),
        (args_named_ctx, (ARGS, "default")),
        (len, 1),
        (max, next(iter(ARGS))),  # it has no signature
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_forms(handler: Any, received: Any) -> None:
    """003-1"""
    assert bind_handler(handler)(ARGS, CTX, EXTRA) == received


@pytest.mark.parametrize("handler", [lambda: 1, lambda *, args: 1, lambda **kwargs: 1])
def test_a_handler_must_take_the_arguments(handler: Any) -> None:
    with pytest.raises(RegistrationError, match=r"def <lambda>\(args, ctx\)"):
        bind_handler(handler)


@pytest.mark.parametrize("handler", ["name", 3, {}])
def test_a_handler_must_be_callable(handler: Any) -> None:
    with pytest.raises(RegistrationError, match="is not a function"):
        bind_handler(handler)


class AsyncCall:
    async def __call__(self, args: Any) -> None: ...


async def coroutine(args: Any) -> None: ...


@pytest.mark.parametrize(
    ("function", "is_async"),
    [
        (plain, False),
        (coroutine, True),
        (functools.partial(coroutine), True),
        (AsyncCall(), True),
        (AsyncCall, False),
        (Handlers(), False),
        (len, False),
    ],
)
def test_async_is_seen_through_partials_and_objects(function: Any, is_async: bool) -> None:
    assert is_async_callable(function) is is_async
