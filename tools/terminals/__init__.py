"""Terminals (PTYs) of a session: programs that need one run in it, and the model reads the screen and presses keys.

A terminal is a process of the session's table like any other. ``terminal`` has the program, its screen and the reader that always
drains it; ``terminals`` opens and ends them for a table; ``typed`` keeps what was typed, so that each line is judged before the
program gets it; ``modes`` recognises when nothing may be typed, as at a prompt for a password; ``prompts`` recognises
other prompts; ``secrets`` hides secrets on the screen; ``actions`` has what the tools do with a terminal.
"""
