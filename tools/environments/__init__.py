"""Open environments by name. An environment runs commands, and reads and writes files.

``rows`` lists the built-in backends. They are imported when first opened; plugins register theirs. ``local`` runs commands on
this machine, directly or in a sandbox, with the persistent bash of ``shell``. ``docker`` and ``ssh`` build on ``remote``.

The modules beside them serve every backend: output (``_capture``, ``_output``), requests and state (``_request``, ``_portable``),
processes and their end (``_groups``, ``_census``, ``_started``, ``_owner``, ``leftovers``, ``_dropped``), and concurrency
(``_pace``, ``_workers``, ``_waiter``, ``_spare``). ``own_files`` recognises hard links to toolcrib's own files.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Any

from toolcrib.contract.environment import Environment
from toolcrib.contract.errors import EnvironmentFailed, ToolcribError
from tools.environments.rows import LOCAL, ROWS, Factory, row_of

__all__ = ["LOCAL", "Factory", "known_environments", "open_environment", "register_environment", "row_of"]

_registered: dict[str, tuple[tuple[object, Factory], ...]] = {}
"""All registered factories, by name. The last one wins."""
_lock = threading.Lock()
_METHODS = [name for name, member in vars(Environment).items() if callable(member) and not name.startswith("_")]


def register_environment(name: str, factory: Factory) -> Callable[[], None]:
    """Register a backend that ``factory(**options)`` opens. The latest registration of a name wins, even over a built-in backend.

    Return a function that removes this registration. Registrations can be removed in any order.
    """
    mine = object()
    with _lock:
        _registered[name] = (*_registered.get(name, ()), (mine, factory))

    def take_back() -> None:
        with _lock:
            left = tuple(each for each in _registered.pop(name, ()) if each[0] is not mine)
            if left:
                _registered[name] = left

    return take_back


def known_environments() -> list[str]:
    """Return the names that ``open_environment`` accepts, sorted."""
    return sorted({*(row.name for row in ROWS.values() if row.opener), *_registered})


def open_environment(name: str, **options: Any) -> Environment:
    """Open the backend ``name``. Raises EnvironmentFailed for an unknown name and for options that the backend rejects."""
    registered = _registered.get(name)
    if registered is not None:
        factory = registered[-1][1]
    else:
        module, _, attribute = row_of(name).opener.partition(":")
        if not module:
            raise EnvironmentFailed(f"unknown environment {name!r}; known: {', '.join(known_environments())}")
        factory = getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
    try:
        opened = factory(**options)
    except TypeError as error:
        given = ", ".join(sorted(options)) or "no options"
        raise EnvironmentFailed(f"environment {name!r} cannot be opened with {given}: {error}") from error
    except (ToolcribError, OSError):
        raise
    except Exception as error:
        raise EnvironmentFailed(f"environment {name!r} cannot be opened: {type(error).__name__}: {error}") from error
    if registered is not None and (lacks := [method for method in _METHODS if not callable(getattr(opened, method, None))]):
        kind = type(opened).__name__
        raise EnvironmentFailed(f"the environment {name!r} opened {kind}, which has no {', '.join(lacks)}")
    return opened
