"""Another host, by ssh: an account there, reached with keys or an agent, through jump hosts where needed.

``target`` is where to go, as ``~/.ssh/config`` has it; ``known_hosts`` who may answer there, ``auth`` who we are; ``dial`` makes
a connection, ``channel`` is one process over there, ``guard`` ends what a lost connection leaves behind, ``link`` the whole.
"""

from tools.environments.ssh.environment import open_ssh

__all__ = ["open_ssh"]
