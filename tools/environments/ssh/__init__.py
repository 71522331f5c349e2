"""Another host, by ssh: an account there, reached with keys or an agent, through jump hosts where needed.

``environment`` opens it; ``target`` is where to go, as ``~/.ssh/config`` has it; ``known_hosts`` who may answer there,
``auth`` who we are; ``dial`` makes a connection, ``connection`` is one (over ``transport``), ``channel`` one process over
there, ``silence`` says when one is lost, ``guard`` ends what a lost connection leaves behind, ``link`` is the whole;
``person`` is how somebody looks around there themselves.
"""

from tools.environments.ssh.environment import open_ssh
from tools.environments.ssh.person import person_argv

__all__ = ["open_ssh", "person_argv"]
