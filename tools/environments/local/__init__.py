"""The local backend, with and without a sandbox.

``environment`` is the local environment, which has a persistent shell, ``files`` its files with their ``contents`` and
``attributes``, ``child_env`` the variables of its commands. Without bash, ``oneshot``, ``spawn`` and ``running`` start one
process for each command.

``contained`` is the sandboxed environment. ``plan`` defines its mounts, ``_launch`` is the program that makes the sandbox,
``sandbox`` starts it and its shells (``sandboxed``), and ``appearing`` finds paths to mask later. ``system_calls`` is the seccomp
filter, ``holding`` detects the modes that this machine supports, and ``landlock`` serves machines without namespaces.
"""

from tools.environments.local.environment import LocalEnvironment, open_local

__all__ = ["LocalEnvironment", "open_local"]
