"""This machine, as it is or in a sandbox.

``environment`` is the whole over the shell that stays, ``files`` its files, ``child_env`` what commands see of our environment;
``bubblewrap`` is the same in a sandbox, which ``sandbox`` starts; ``oneshot``, ``spawn`` and ``running`` are one process a
command, where bash is missing.
"""

from tools.environments.local.environment import LocalEnvironment, open_local

__all__ = ["LocalEnvironment", "open_local"]
