"""Authenticate with keys from files and from the agent, tried in OpenSSH's order. Never with a password."""

from __future__ import annotations

import base64
import binascii
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from toolcrib.contract.errors import EnvironmentFailed
from tools.environments.ssh.target import Hop

if TYPE_CHECKING:
    import paramiko


def authenticate(transport: paramiko.Transport, hop: Hop) -> None:
    """Authenticate to a hop. Raises EnvironmentFailed with the keys that were tried."""
    import paramiko

    tried: list[str] = []
    faults: list[str] = []
    with contextlib.closing(paramiko.Agent()) if hop.agent else contextlib.nullcontext() as agent:
        held = _held(agent, faults)
        for label, key in _keys(hop, held, faults):
            try:
                more = transport.auth_publickey(hop.user, key)
            except paramiko.BadAuthenticationType as error:
                raise _refused(hop, f"it accepts only {', '.join(error.allowed_types)}, but toolcrib offers only keys") from error
            except paramiko.AuthenticationException as error:
                tried.append(label)
                if not transport.is_active():
                    raise _refused(hop, _hung_up(tried)) from error
                continue
            except (paramiko.SSHException, EOFError, OSError) as error:
                raise _refused(hop, _hung_up([*tried, label])) from error
            if not more:
                return
            raise _refused(hop, f"it accepts {label}, but also needs {', '.join(more)}, which toolcrib does not offer")
    raise _refused(hop, "; ".join([_asked(transport, hop, tried), *faults]))


def _refused(hop: Hop, why: str) -> EnvironmentFailed:
    return EnvironmentFailed(f"{hop.where} denied the login: {why}")


def _hung_up(tried: list[str]) -> str:
    return (
        f"it hung up after {len(tried)} keys ({', '.join(tried)}). It may allow only a few tries: name the right key "
        "(identity_file), and set IdentitiesOnly in ~/.ssh/config"
    )


def _asked(transport: paramiko.Transport, hop: Hop, tried: list[str]) -> str:
    """Return the reason for a refusal, with the authentication methods that the server accepts, if it reports them."""
    import paramiko

    allowed = ""
    try:
        transport.auth_none(hop.user)
    except paramiko.BadAuthenticationType as error:
        allowed = f" (it accepts {', '.join(error.allowed_types)})"
    except (paramiko.SSHException, EOFError, OSError):  # the server reports nothing more
        allowed = ""
    if tried:
        keys = f"none of these keys is accepted for {hop.user}: {', '.join(tried)}{allowed}"
        return f"{keys}; add one to ~{hop.user}/.ssh/authorized_keys there"
    return f"there is no key to try{allowed}: name one (identity_file), or add one to the agent (ssh-add)"


def _held(agent: paramiko.Agent | None, faults: list[str]) -> dict[bytes, paramiko.PKey]:
    import paramiko

    if agent is None:
        return {}
    try:
        return {key.asbytes(): key for key in agent.get_keys()}
    except (paramiko.SSHException, OSError, EOFError) as error:
        faults.append(f"the agent does not answer: {error}")
        return {}


def _keys(hop: Hop, held: dict[bytes, paramiko.PKey], faults: list[str]) -> Iterator[tuple[str, paramiko.PKey]]:
    """Yield (description, key) for each key. Errors of unusable keys are added to ``faults``."""
    left = dict(held)
    for path in hop.keys:
        key = left.pop(_public(path), None)
        if key is None:
            key = _load(path, hop.named, faults)
        if key is not None:
            left.pop(key.asbytes(), None)
            yield str(path), key
    if not hop.only_keys:
        for blob, key in left.items():
            yield f"{key.get_name()} of the agent", held[blob]


def _public(path: Path) -> bytes:
    """Return the public key from the ``.pub`` file beside the private key, b"" if there is none."""
    try:
        return base64.b64decode(Path(f"{path}.pub").read_text(encoding="utf-8").split()[1])
    except (OSError, ValueError, IndexError, binascii.Error):
        return b""


def _load(path: Path, named: bool, faults: list[str]) -> paramiko.PKey | None:
    import paramiko

    try:
        if path.stat().st_mode & 0o077:
            faults.append(f"{path} is readable by other users, so it was not used: chmod 600 {path}")
            return None
        return paramiko.PKey.from_path(path)
    except FileNotFoundError:
        if named:
            faults.append(f"{path} does not exist")
    except (TypeError, paramiko.PasswordRequiredException):
        faults.append(f"{path} is encrypted, and toolcrib asks for no passphrase: add it to the agent (ssh-add {path})")
    except OSError as error:
        faults.append(f"{path} cannot be read: {error.strerror}")
    except (ValueError, paramiko.SSHException, paramiko.pkey.UnknownKeyType) as error:
        faults.append(f"{path} is not a usable key: {error}")
    return None
