"""``docker run`` and similar commands: whether the inner program reaches anything outside the container."""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Sequence

from tools.judge.meaning.value import HOLE, Value
from tools.judge.meaning.wrappers import Inner
from tools.judge.options import path_of, read

_READ_ONLY = (":ro", ",ro", ",readonly")
_IMAGES_OWN = frozenset(
    {"sh", "bash", "ash", "rm", "find", "dd", "shred", "truncate", "chmod", "chown", "mv", "python", "python3"}
)
_RUN_SCRIPTS = frozenset({"python", "python3"})
"""Programs that count only if the line itself mounts a volume. In a service of a compose file they mostly run the service's own
scripts, which are unknown, as are the mounts in that file.
"""


def run(argv: Sequence[Value], stdin: Value | None) -> list[Inner]:
    """Return a container's command if it may write to outside data: a volume, folders of the host.

    Otherwise its effects end with the container. The rules about mounts decide which folders of the host need an approval.
    """
    words = [value.text for value in argv]
    reading = read(words, path_of(words[0].rpartition("/")[2]))
    if not reading.path.endswith(" run"):
        return []
    began, *command = itertools.dropwhile(lambda at: words[at] not in ("run", "create"), reading.operands)
    given = [(one.name, one.value or "") for one in reading.options if one.at > began]
    inside = [argv[at] for at in command]
    composed = "compose" in reading.path
    entry = next((value for name, value in given if name == "--entrypoint"), "")
    image, *inside = inside or [Value("")]
    if entry:
        inside = [Value(entry), *inside]
    if not inside:
        return []
    found: list[Inner] = []
    shared = any(_is_volume(name, value) for name, value in given)
    program = inside[0].text.rpartition("/")[2]
    if program in _IMAGES_OWN if shared else composed and program in _IMAGES_OWN - _RUN_SCRIPTS:
        found.append(Inner(argv=inside, place=f"container:{image.text}", own=True))
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
    """Return the path in the container and the path on the host of a writable folder of the host; None for any other option."""
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


SPECIALS = dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose", "podman-compose"), run)
