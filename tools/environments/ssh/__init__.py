"""The ssh backend: an account on another host, reached with keys or an agent, through jump hosts if needed.

``environment`` opens it. ``target`` resolves the host as in ``~/.ssh/config``; ``known_hosts`` checks host keys, ``auth`` logs
in. ``dial`` makes a connection, ``connection`` is one (over ``transport``), ``channel`` is one process on the host. ``silence``
detects a lost connection, ``guard`` ends what a lost connection leaves behind, ``link`` combines all of these. ``person`` opens a
shell for the user.
"""

from tools.environments.ssh.environment import open_ssh
from tools.environments.ssh.person import person_argv

__all__ = ["open_ssh", "person_argv"]
