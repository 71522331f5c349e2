"""``docker run`` and its like: where the options end, and whether what runs inside reaches anything outside."""

from __future__ import annotations

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
_IMAGES_OWN = frozenset(
    {"sh", "bash", "ash", "rm", "find", "dd", "shred", "truncate", "chmod", "chown", "mv", "python", "python3"}
)


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
    """The command that a container is started with, where it is given a volume with data of others that it may write to.

    Without one, what it does is gone with it; folders of the host are judged by the rules about mounts.
    """
    at = 2 if len(argv) > 1 and argv[1].text == "container" else 1
    if len(argv) <= at or argv[at].text != "run":
        return []
    words = [value.text for value in argv[at + 1 :]]
    given, place = options(words)
    shared = any(_is_volume(name, value) for name, value in given)
    inside = list(argv[at + 2 + place :])
    entry = next((value for name, value in given if name == "--entrypoint"), "")
    if entry and inside:
        inside = [Value(entry), *inside]
    if not shared or not inside or inside[0].text.rpartition("/")[2] not in _IMAGES_OWN:
        return []
    return [Inner(argv=inside, place=f"container:{words[place]}", own=True)]


def _is_volume(name: str, value: str) -> bool:
    if value.endswith((":ro", ",ro", ",readonly")):
        return False
    if name in ("-v", "--volume"):
        source, colon, _ = value.partition(":")
        return bool(colon) and source[:1] not in ("/", ".", "~", HOLE, "")
    return name == "--volumes-from" or (name == "--mount" and "type=volume" in value)
