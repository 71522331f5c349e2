"""Add the environment's name to results of calls that did not run on this machine, inside or outside its sandbox."""

from __future__ import annotations

from toolcrib.contract.dataclass import replace
from toolcrib.contract.types import ToolResult
from tools.contained.outside import is_elsewhere
from tools.dispatch.progress import CallInProgress


def placed(current: CallInProgress, result: ToolResult) -> ToolResult:
    """Return ``result`` with its environment's name: in its data, text or error, and in its views.

    A result with its own ``data["where"]`` is unchanged, as is text that looks like JSON.
    """
    if not current.ctx.used_environment or not is_elsewhere(where := current.scope.where):
        return result
    data, views, failure = result.data, result.views, result.failure
    line = f"[where: {where}]"
    if failure is not None:
        if where in failure.text:
            return result
        return replace(result, message=f"{result.message} {line}", failure=replace(failure, text=f"{failure.text} {line}"))
    if isinstance(data, dict):
        if "where" in data:
            return result
        data = {**data, "where": where}
    elif isinstance(data, str) and not data.lstrip().startswith(("{", "[", '"')):
        data = f"{data}\n{line}"
    if views:
        views = {reader: f"{text}\n{line}" for reader, text in views.items()}
    return replace(result, data=data, views=views)
