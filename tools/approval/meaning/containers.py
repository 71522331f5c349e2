"""``docker run`` and its like: where the options end, and whether what runs inside reaches anything outside."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from tools.approval.meaning.value import HOLE, Value
from tools.approval.meaning.wrappers import Inner

_SWITCH_NAMES = (
    "--detach --interactive --tty --rm --init --privileged --publish-all --read-only"
    " --no-healthcheck --oom-kill-disable --sig-proxy --disable-content-trust --quiet --replace"
    " --rmi --rootfs --no-hosts --no-hostname --systemd --http-proxy --env-host --tls-verify"
    " --use-aliases --service-ports --no-deps --build --quiet-pull --remove-orphans --quiet-build --help"
)
_SWITCHES = frozenset(_SWITCH_NAMES.split())
_SHORT_SWITCHES = "ditPqT"
_READ_ONLY = (":ro", ",ro", ",readonly")
_IMAGES_OWN = frozenset(
    {"sh", "bash", "ash", "rm", "find", "dd", "shred", "truncate", "chmod", "chown", "mv", "python", "python3"}
)
_RUN_SCRIPTS = frozenset({"python", "python3"})
"""A service's own scripts cannot be looked into; what its compose file mounts is not known either."""


def options(words: Sequence[str]) -> tuple[list[tuple[str, str]], int]:
    """(option, value) of ``words`` up to the image, and where that stands; what follows belongs to the command inside."""
    found: list[tuple[str, str]] = []
    place = 0
    while place < len(words):
        text = words[place]
        if len(text) < 2 or text[0] != "-" or text == "--":
            break
        place += 1
        if text.startswith("--"):
            name, equals, value = text.partition("=")
            if not equals and name not in _SWITCHES and place < len(words):
                value = words[place]
                place += 1
            found.append((name, value))
            continue
        for index, letter in enumerate(text[1:], start=1):
            if letter in _SHORT_SWITCHES:
                continue
            value = text[index + 1 :].removeprefix("=")
            if not value and place < len(words):
                value = words[place]
                place += 1
            found.append((f"-{letter}", value))
            break
    return found, place


def run(argv: Sequence[Value], stdin: Value | None) -> list[Inner]:
    """The command that a container is started with, where it is given data of others that it may write to: a volume, folders of
    the host.

    Without them, what it does is gone with it; which folders of the host are worth a question is for the rules about mounts.
    """
    at = 2 if len(argv) > 1 and argv[1].text in ("container", "compose") else 1
    composed = argv[1:] and (argv[1].text == "compose" or argv[0].text.endswith("-compose"))
    if len(argv) <= at or argv[at].text not in ("run", "create"):
        return []
    words = [value.text for value in argv[at + 1 :]]
    given, place = options(words)
    inside = list(argv[at + 2 + place :])
    entry = next((value for name, value in given if name == "--entrypoint"), "")
    if entry and inside:
        inside = [Value(entry), *inside]
    if not inside:
        return []
    found: list[Inner] = []
    shared = any(_is_volume(name, value) for name, value in given)
    program = inside[0].text.rpartition("/")[2]
    if program in _IMAGES_OWN if shared else composed and program in _IMAGES_OWN - _RUN_SCRIPTS:
        found.append(Inner(argv=inside, place=f"container:{words[place]}", own=True))
    if mounts := [one for name, value in given if (one := _mount(name, value)) is not None]:
        cwd = next((Value(value) for name, value in given if name in ("-w", "--workdir")), None)
        found.append(Inner(argv=inside, cwd=cwd, mounts=mounts, own=True))
    return found


def _is_volume(name: str, value: str) -> bool:
    if value.endswith(_READ_ONLY):
        return False
    if name in ("-v", "--volume"):
        source, colon, _ = value.partition(":")
        return bool(colon) and source[:1] not in ("/", ".", "~", HOLE, "")
    return name == "--volumes-from" or (name == "--mount" and "type=volume" in value)


def _mount(name: str, value: str) -> tuple[str, Value] | None:
    """A folder of the host that may be written to: its name inside, and the host's."""
    if value.endswith(_READ_ONLY):
        return None
    if name in ("-v", "--volume"):
        source, _, to = value.partition(":")
        to, _, said = to.partition(":")
        if source[:1] not in ("/", ".", "~", HOLE) or "ro" in said.split(","):
            return None
    elif name == "--mount" and "type=bind" in value.split(","):
        named = dict(part.partition("=")[::2] for part in value.split(","))
        if not named.keys().isdisjoint(("readonly", "ro")):
            return None
        source = named.get("src") or named.get("source") or ""
        to = named.get("dst") or named.get("target") or named.get("destination") or ""
    else:
        return None
    return (posixpath.normpath(to), Value(source)) if source and to.startswith("/") else None
