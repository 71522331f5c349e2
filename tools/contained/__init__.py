"""Consequences of a sandbox: what it stopped, and which of a command's files other programs will run later.

``stopped`` finds denials of the sandbox in a command's output. ``outside`` offers to run a command outside the sandbox, and knows
the programs that cannot work inside. ``later`` names files that other programs run after the session.
"""
