"""Consequences of a sandbox: what it stopped, and which of the files that a command changed will be run later, outside of it.

``stopped`` finds denials of the sandbox in a command's output. ``outside`` offers to run a command outside the sandbox, and knows
the programs that cannot work inside. ``later`` names files that the user's own tools run later. ``hosts`` finds the hosts that a
command needs.
"""
