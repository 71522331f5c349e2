"""Import it first, and pytest says what was compared where an assertion of the suite fails, as in tests of its own."""

from __future__ import annotations

import sys

if (_pytest := sys.modules.get("pytest")) is not None:
    _pytest.register_assert_rewrite("toolcrib._testing_desk", "toolcrib._testing_platform")
