"""Stand-in for ``langchain_core.tools``: the part that the tutorial uses."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from pydantic import BaseModel, create_model


class BaseTool:
    """A tool: a name, a description, a pydantic model of its arguments, and its action."""

    name: str
    description: str
    args_schema: ClassVar[type[BaseModel]]

    @property
    def tool_call_schema(self) -> type[BaseModel]:
        """The model of a caller's arguments."""
        return self.args_schema

    def _run(self, **args: Any) -> Any:
        raise NotImplementedError

    async def ainvoke(self, args: dict[str, Any]) -> Any:
        """Check the arguments, and run the tool in a thread."""
        checked = self.args_schema.model_validate(args)
        return await asyncio.to_thread(lambda: self._run(**dict(checked)))


def tool(function: Callable[..., Any]) -> BaseTool:
    """Return a tool made from a function."""
    given = inspect.signature(function, eval_str=True).parameters.values()
    fields: dict[str, Any] = {one.name: (one.annotation, ... if one.default is one.empty else one.default) for one in given}
    made: Any = type("Made", (BaseTool,), {"_run": lambda self, **args: function(**args)})
    made.name, made.description = function.__name__, inspect.getdoc(function) or ""
    made.args_schema = create_model(function.__name__, **fields)
    found: BaseTool = made()
    return found
