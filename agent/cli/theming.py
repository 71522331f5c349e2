"""Switch the chat's colours while it runs, and show a sample."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.cli.calls import diff_rows
from agent.cli.screen.markdown import Markdown
from agent.cli.screen.themes import theme_for

if TYPE_CHECKING:
    from agent.cli.screen.frame import Board

_TEXT = """\
**Bold**, *emphasis*, `code` and a [link](https://example.org)
```python
def area(radius: float) -> float:
    return 3.14159 * radius**2  # "a comment"
```
"""
_DIFF = """\
@@ -1,2 +1,2 @@
 def area(radius: float) -> float:
-    return 3.14 * radius**2
+    return 3.14159 * radius**2
"""


def switch_theme(board: Board, name: str, color: str) -> str:
    """Show all further output in this theme's colours, first a sample; "" keeps the current theme. Return the theme's name,
    "none" if NO_COLOR or ``color`` (display.color) turns colours off.
    """
    if name:
        board.painter.theme = theme_for(name, color)
    text = Markdown(board.columns, laid_out=True)
    text.feed(_TEXT)
    text.end()
    board.add([*text.take(), *diff_rows(_DIFF, board.columns)])
    board.frame()
    return board.painter.theme.name
