"""Where commands run, by name. Built-in kinds are imported when first opened; plugins register theirs."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeAlias

from toolcrib import Environment, EnvironmentFailed

__all__ = ["Factory", "known_environments", "open_environment", "register_environment"]

Factory: TypeAlias = Callable[..., Environment]

_BUILT_IN = {
    "docker": ("tools.environments.docker", "open_docker"),
    "local": ("tools.environments.local", "open_local"),
    "ssh": ("tools.environments.ssh", "open_ssh"),
}
_registered: dict[str, Factory] = {}


def register_environment(name: str, factory: Factory) -> Callable[[], None]:
    """``factory(**options)`` opens it. A later registration of a name wins, also over a built-in one.

    Answers with what takes it back, unless a later one has won meanwhile.
    """
    before = _registered.get(name)
    _registered[name] = factory

    def take_back() -> None:
        if _registered.get(name) is not factory:
            return
        if before is None:
            del _registered[name]
        else:
            _registered[name] = before

    return take_back


def known_environments() -> list[str]:
    """The names that ``open_environment`` takes, sorted."""
    return sorted({*_BUILT_IN, *_registered})


def open_environment(name: str, **options: Any) -> Environment:
    """Raises EnvironmentFailed for an unknown name or options that this kind does not take."""
    factory = _registered.get(name)
    if factory is None:
        if name not in _BUILT_IN:
            raise EnvironmentFailed(f"unknown environment {name!r}; known: {', '.join(known_environments())}")
        module, attribute = _BUILT_IN[name]
        factory = getattr(importlib.import_module(module), attribute)
    try:
        return factory(**options)
    except TypeError as error:
        given = ", ".join(sorted(options)) or "no options"
        raise EnvironmentFailed(f"environment {name!r} cannot be opened with {given}: {error}") from error
