"""Results with images, on their way through the dispatcher (004-21)."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib import Image, ToolCallStatus, ToolEntry, ToolOutput, ToolRegistry, ToolResult, ToolStatus, hookimpl
from toolcrib.testing import call_tool
from tools.dispatch.json_results import as_json, images_of

PNG = Image.of(b"\x89PNG\r\n\x1a\n" + b"x" * 200_000)


def plot(result: Any) -> ToolEntry:
    registry = ToolRegistry()
    registry.register("plot", "t", {"description": "Draw."}, lambda args: result)
    entry = registry.get("plot")
    assert entry is not None
    return entry


@pytest.mark.parametrize("output", [False, True])
def test_004_21_images_leave_beside_the_text_whole(output: bool) -> None:
    """Images are not clipped, and are not part of the text that the model reads, even if the text is clipped."""
    result = ToolResult.success_with_images("plot", {"log": "y" * 100_000}, [PNG])
    done = call_tool(plot(ToolOutput(result) if output else result), {})
    assert done.status is ToolCallStatus.SUCCEEDED
    assert images_of(done) == (PNG,)
    assert len(as_json(done)) < 50_000
    assert "xxxx" not in as_json(done)
    assert PNG.base64[40:80] not in as_json(done)


def test_004_21_a_failed_call_has_no_images() -> None:
    done = call_tool(plot(ToolResult("plot", ToolStatus.ERROR, None, "no paper", images=[PNG])), {})
    assert done.status is ToolCallStatus.FAILED
    assert done.result.images == ()

    class Objects:
        @hookimpl
        def transform_tool_result(self, result: ToolResult) -> ToolResult:
            return ToolResult(result.tool_name, ToolStatus.ERROR, None, "withheld", images=result.images)

    done = call_tool(plot(ToolResult.success_with_images("plot", 1, [PNG])), {}, plugins=[Objects()])
    assert (done.result.message, done.result.images, images_of(done)) == ("withheld", (), ())


@pytest.mark.parametrize(("images", "why"), [([b"\x89PNG"], "images holds bytes; it must be an Image"), (3, "not iterable")])
def test_what_is_no_image_fails_the_call(images: Any, why: str) -> None:
    done = call_tool(plot(ToolResult("plot", ToolStatus.SUCCESS, 1, images=images)), {})
    assert done.status is ToolCallStatus.FAILED
    assert why in str(done.result.message)
