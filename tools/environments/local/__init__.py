"""Backends on this machine: without a sandbox, and in one.

``environment`` is the local environment over its persistent shell, ``files`` its files with their ``contents`` and
``attributes``, ``child_env`` the variables that its commands get; ``oneshot``, ``spawn`` and ``running`` start one process a
command, if bash is missing.

``contained`` is the same in a sandbox: ``plan`` says what it mounts, ``_launch`` is the program that makes it, ``sandbox`` starts
it and its shells (``sandboxed``), ``appearing`` finds what it must mask later. ``system_calls`` is its seccomp filter,
``holding`` says which mode this machine can hold, and ``landlock`` is for one without namespaces.
"""

from tools.environments.local.environment import LocalEnvironment, open_local

__all__ = ["LocalEnvironment", "open_local"]
