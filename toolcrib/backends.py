"""The base class of backends whose commands are started by a program, such as ``podman exec``, ``nsenter`` or ``chroot``.

class Podman(ExecProgram):
    starts_sessions = True

    def argv(self, command):
        return ["podman", "exec", "-i", "toolbox", *command]

def open_podman(cwd=None):
    return open_program(Podman("podman:toolbox"), "/")
"""

from __future__ import annotations

from tools.environments.remote.program import ExecProgram, open_program

__all__ = ["ExecProgram", "open_program"]
