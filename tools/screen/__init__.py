"""The screen of a terminal, computed from the bytes that programs send to it.

``terminal.TerminalScreen`` reads those bytes: text, control characters and escape sequences, cut anywhere. ``grid`` has the cells
and what writes, erases and scrolls them; ``style`` their colours; ``highlights`` the text that stands out; ``sequences``
the table of control sequences; ``replies`` the answers to a program's questions. ``keys`` has the opposite way: the bytes of
named keys.
"""
