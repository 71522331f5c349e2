"""Environment variables of commands: only listed names, so that no secret of toolcrib is among them."""

from __future__ import annotations

import os
from collections.abc import Iterable

PASSED = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR")
"""Names of variables that commands get if they are set. Commands also get every ``LC_*``."""

_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


def child_environment(pass_env: Iterable[str] = ()) -> dict[str, str]:
    """Return the variables that a command starts with; ``pass_env`` names variables that an operator adds."""
    source = os.environ
    child = {name: value for name in (*PASSED, *pass_env) if (value := source.get(name)) is not None}
    child.update({name: source[name] for name in source if name.startswith("LC_")})
    child.setdefault("PATH", _DEFAULT_PATH)
    child["TERM"] = "dumb"
    return child
