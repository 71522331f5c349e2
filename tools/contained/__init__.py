"""Consequences of a sandbox: what it stopped, and the files that a command leaves to be run later.

``stopped`` finds in the output of a command what the sandbox denied. ``outside`` offers to run one outside the sandbox, and knows
the programs that can't work inside. ``later`` names files that run after the session without a command of its own.
"""
