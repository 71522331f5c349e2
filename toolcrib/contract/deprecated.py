"""Old names of methods. They still work, and warn."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

_F = TypeVar("_F", bound=Callable[..., Any])


def old_name(method: _F, old: str) -> _F:
    """Return a method that warns with DeprecationWarning and calls the method with the new name."""
    new = method.__name__

    @wraps(method)
    def call(self: object, *args: Any, **kwargs: Any) -> Any:
        warnings.warn(f"{type(self).__name__}.{old} is an old name: call {new}", DeprecationWarning, stacklevel=2)
        return getattr(self, new)(*args, **kwargs)

    return cast("_F", call)
