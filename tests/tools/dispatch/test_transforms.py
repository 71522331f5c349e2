"""Plugins that change results, and plugins that fail in doing so."""

from __future__ import annotations

from typing import Any

import pytest


def test_a_transform_that_fails_is_logged_and_the_result_stands(bench: Any, caplog: pytest.LogCaptureFixture) -> None:
    def broken(result: Any) -> None:
        raise ValueError("no idea")

    bench.tool("t", lambda args: {"n": 1})
    bench.plugin("bad", transform_tool_result=broken)
    assert bench.call("t").result.data == {"n": 1}
    assert "the transform of 'bad' failed on t; the result is unchanged" in caplog.text
