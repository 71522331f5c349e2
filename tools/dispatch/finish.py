"""transform -> redact -> clip -> record -> post: observers see the final result."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any

from toolcrib.contract.dataclass import replace
from toolcrib.contract.image import Image
from toolcrib.contract.session import ExecutedCall
from toolcrib.contract.types import ToolCallStatus, ToolResult, ToolStatus
from tools.clip import clip_data, clip_text, encode, whole_text
from tools.dispatch.after import take
from tools.dispatch.hooks import Hook
from tools.dispatch.json_results import failed
from tools.dispatch.progress import SUCCESS, CallInProgress

_log = logging.getLogger(__name__)
_SUCCEEDED = ToolCallStatus.SUCCEEDED


async def close(current: CallInProgress, result: ToolResult) -> ExecutedCall:
    """Return the final result of the call. No hook sees a call that was never prepared (bad arguments)."""
    hooks = current.plan.hooks if current.prepared else None
    if hooks is not None:
        for hook in hooks.of("transform_tool_result"):
            result = await _transformed(current, hook, result)
    try:
        result, encoded = await _bounded(current, result)
    except (AttributeError, TypeError, ValueError, KeyError, RecursionError) as error:
        result, encoded = await _bounded(current, failed(current.call.name, _malformed(error), inside=True))
    if result.status is SUCCESS:
        status = _SUCCEEDED
    elif result.failure is not None and result.failure.kind == "Cancelled":
        status = ToolCallStatus.CANCELLED
    else:
        status = ToolCallStatus.outcome_of(result.status)
    unrecorded = False
    if current.scope.ledger is not None:
        current.ended = ExecutedCall(
            current.call, result, status, time.perf_counter() - current.started, current.end_run, encoded
        )
        unrecorded = current.ended.unrecorded = not await current.finish(result, status)
    if hooks is not None and (after := hooks.of("post_tool_call")):
        said = await observe(current, after, current.call, result, current.ctx)
        if said:
            await take(current, said)
    return ExecutedCall(current.call, result, status, time.perf_counter() - current.started, current.end_run, encoded, unrecorded)


async def observe(current: CallInProgress, hooks: Iterable[Hook], *values: Any) -> list[tuple[str, object]]:
    """Call every hook, and return (plugin, value) for each value other than None. A hook that raises or is late is logged."""
    said: list[tuple[str, object]] = []
    for hook in hooks:
        try:
            seen = hook.call(*values)
            if seen is not None:
                seen = await current.await_value(seen, current.scope.limits.gate_seconds)
                if seen is not None:
                    said.append((hook.plugin, seen))
        except BaseException as error:
            current.let_pass(error)
            current.log_failure(error, "the hook of %r failed on %s; the call continues", hook.plugin, current.call.name)
    return said


async def _transformed(current: CallInProgress, hook: Hook, result: ToolResult) -> ToolResult:
    try:
        changed = hook.call(current.call, result, current.ctx)
        if changed is not None:
            changed = await current.await_value(changed, current.scope.limits.gate_seconds)
    except BaseException as error:
        current.let_pass(error)
        current.log_failure(error, "the transform of %r failed on %s; the result is unchanged", hook.plugin, current.call.name)
        return result
    if changed is None:
        return result
    if isinstance(changed, ToolResult):
        return changed
    _log.error("the transform of %r returned %s instead of a ToolResult; it is ignored", hook.plugin, type(changed).__name__)
    return result


async def _bounded(current: CallInProgress, result: ToolResult) -> tuple[ToolResult, str]:
    """Return (the result without secrets and within its limit, its data as text: JSON unless it is a str)."""
    scope = current.scope
    limit = scope.limits.result_chars
    if current.prepared and current.plan.entry.max_result_chars is not None:
        limit = current.plan.entry.max_result_chars
    data, message, views, failure = result.data, result.message, result.views, result.failure
    if type(result.status) is not ToolStatus:
        ToolStatus(result.status)  # raises for an invalid value
    if result.images:
        result = _pictured(result)
    try:
        text = data if isinstance(data, str) else encode(data)
    except (TypeError, ValueError, RecursionError) as error:
        wrong = TypeError(
            f"the handler returned a value that is not JSON ({error}); return str, dict, list, number or ToolResult"
        )
        return failed(current.call.name, wrong, inside=True), "null"
    if scope.redactor.touches(text):
        data = scope.redactor.data(data)
        text = data if isinstance(data, str) else encode(data)
    if len(text) > limit:
        from tools.artifacts import keep_text  # imported here, because few results are so long

        full = await keep_text(scope, whole_text(data), current.call.id)
        data = clip_data(data, limit, lambda whole: full)
        text = data if isinstance(data, str) else encode(data)
    if message is not None:
        message = clip_text(scope.redactor.text(message), limit, "")
    if views:
        shown = {reader: clip_text(scope.redactor.text(view), limit, "") for reader, view in views.items()}
        views = views if shown == views else shown
    if failure is not None:
        failure = replace(failure, text=clip_text(scope.redactor.text(str(failure.text)), limit, ""))
    if data is result.data and message is result.message and views is result.views and failure is result.failure:
        return result, text
    return replace(result, data=data, message=message, views=views, failure=failure), text


def _pictured(result: ToolResult) -> ToolResult:
    """Return a successful result with its images, and any other result without images (004-21). Raises TypeError for an object
    that is not an Image.
    """
    if result.status is not ToolStatus.SUCCESS:
        return replace(result, images=())
    for image in result.images:
        if not isinstance(image, Image):
            raise TypeError(f"images holds {type(image).__name__}; it must be an Image, for instance Image.from_file(path)")
    return result


def _malformed(error: Exception) -> TypeError:
    return TypeError(
        f"the result can't be read ({type(error).__name__}: {error}); a ToolResult has a ToolStatus, JSON as data, "
        "text or None as message, text for each reader in views, and Image objects in images"
    )
