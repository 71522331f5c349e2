"""Backends on this machine: without a sandbox (local) and in one (bubblewrap).

``environment`` is the local environment over its persistent shell, ``files`` its files with their ``contents`` and
``attributes``, ``child_env`` the variables that its commands get; ``bubblewrap`` is the same in a sandbox, which ``sandbox``
starts; ``oneshot``, ``spawn`` and ``running`` start one process a command, where bash is missing.
"""

from tools.environments.local.environment import LocalEnvironment, open_local

__all__ = ["LocalEnvironment", "open_local"]
