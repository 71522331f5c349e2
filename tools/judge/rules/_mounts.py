"""Parts of the host that ``docker run`` and similar commands give to a container. Options are split as docker splits them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.folders import under
from tools.judge.meaning.value import HOLE, Value
from tools.judge.options import GivenOption
from tools.judge.table import ActView

_SOCKET_NAME = Regex(r"(?:docker|podman|containerd|crio|cri-dockerd|buildkitd|unix)\.(?:sock|socket)")
_HOST = Regex(
    r"/(?:(?:etc|root|boot|proc|sys|dev|run|var/run|usr|lib|lib64|bin|sbin|var/lib/(?:docker|kubelet"
    r"|containerd|rancher)|var/spool/cron)(?:/.*)?"
    r"|var|var/lib|var/log|home|Users|mnt|(?:home|Users)/[^/]+(?:/\.(?:ssh|gnupg)(?:/.*)?)?|opt|srv)?"
)
_HARMLESS = Regex(
    r"/(?:etc/(?:localtime|timezone|hosts|hostname|resolv\.conf|machine-id|os-release|nsswitch\.conf"
    r"|ssl(?:/.*)?|ca-certificates(?:/.*)?|pki(?:/.*)?"
    r"|letsencrypt(?:/.*)?|nginx(?:/.*)?|alternatives)|dev/(?:shm|null|zero|u?random|dri|kvm|snd|fuse"
    r"|net/tun|tty\w*|video\d*|bus/usb|ttyUSB\d+|input)(?:/.*)?"
    r"|run/user/.*|usr/(?:share|local/share)/.*|run/secrets/.*|lib/modules(?:/.*)?|run/dbus.*|mnt/.+|opt/.+|srv/.+)"
)
_READ_ONLY_HARMLESS = Regex(r"/(?:etc/(?:passwd|group)|usr(?:/.*)?|opt|srv|mnt|lib|sys/class/.*|sys/fs/cgroup|var/log)")
_DEVICES = Regex(r"/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|mapper|dm-|md\d|mem|kmem|port|disk|loop|block|$)?(?:.*)?")
_SAFE_DEVICES = Regex(
    r"/dev/(?:dri|kvm|snd|fuse|net/tun|tty\w*|video\d*|nvidia.*|bus/usb|input|i2c.*|gpio.*|kfd|shm"
    r"|vfio.*|infiniband.*|ttyUSB.*|serial.*|rtc\d*|usb.*)"
)

_STRONG = frozenset(
    ("all", "sys_admin", "sys_ptrace", "sys_module", "dac_read_search", "sys_rawio", "sys_boot", "bpf", "syslog", "mac_admin")
)


def host_given(view: ActView) -> str:
    """Return the part of the host that ``docker run``'s options give to the container (``--privileged``, ``/etc``); "" if
    none.
    """
    return _among(view, view.read().options) if view.path.endswith(" run") else ""


_BUILD_VALUED = frozenset("-v --volume --cap-add --device --security-opt --pid --ipc --uts --userns".split())


def host_built_with(view: ActView) -> str:
    """Return the part of the host that the options of a build command give to the build; "" if none."""
    return _among(view, view.read(_BUILD_VALUED).options)


def _among(view: ActView, options: Sequence[GivenOption]) -> str:
    for given in options:
        value = given.value or ""
        if _gives(given.name, value, view.act.cwds):
            return given.name if given.name == "--privileged" else value
    return ""


def _gives(name: str, value: str, cwds: Sequence[str]) -> bool:
    lowered = value.lower()
    if name == "--privileged":
        return lowered not in ("false", "0")
    if name in ("--pid", "--userns", "--uts", "--ipc", "--cgroupns"):
        return lowered == "host" and name != "--cgroupns"
    if name == "--cap-add":
        return any(one.strip().removeprefix("cap_") in _STRONG for one in lowered.split(","))
    if name == "--security-opt":
        return re.search(r"(?:seccomp|apparmor|systempaths)[=:]unconfined|label[=:]disable", lowered) is not None
    if name == "--device":
        device = value.partition(":")[0]
        return _DEVICES.fullmatch(device) is not None and not _SAFE_DEVICES.fullmatch(device)
    if name in ("-v", "--volume", "--bind"):
        source, _, rest = value.partition(":")
        return is_host_path(source, cwds, read_only=rest.endswith((":ro", ",ro")) or ":ro," in rest)
    if name == "--mount":
        given = dict(part.partition("=")[::2] for part in value.split(","))
        source = given.get("src") or given.get("source") or ""
        return is_host_path(source, cwds, read_only="readonly" in given or "ro" in given)
    return False


_CACHES = Regex(
    r"(?:^|/)(?:\.cache|\.m2|\.npm|\.gradle|\.cargo|\.rustup|\.ivy2|\.sbt|\.composer|\.nuget|\.pub-cache|\.ccache|\.conan2?|\.gem"
    r"|\.bundle|\.yarn|\.pnpm-store|\.bun|\.deno|\.cpan|\.cabal|\.stack|\.huggingface|\.ollama|\.local/share/pnpm|\.triton|go/pkg"
    r"|node_modules)(?:/|$)|^/var/(?:cache|tmp)/|^/(?:tmp|dev/shm)(?:/|$)"
)
"""Folders of files that can be downloaded or built again."""
_OWN_FOLDERS = Regex(r"/(?:mnt|opt|srv)/.*")


def elsewhere_given(view: ActView) -> list[Value]:
    """Return the folders and files outside of the working folder that the container may write to, except harmless ones."""
    found: list[Value] = []
    argv = view.act.argv
    for given in view.read().options if view.path.endswith(" run") else ():
        source = _writable(given.name, given.value or "")
        if source and HOLE not in source and _is_elsewhere(source, view.act.cwds):
            found.append(argv[given.value_at]._replace(text=source, shown=""))
    return found


def _writable(name: str, value: str) -> str:
    """Return the source of a mount option if it is a part of the host that the container may write to; otherwise ""."""
    if name in ("-v", "--volume"):
        source, _, rest = value.partition(":")
        said = rest.partition(":")[2].split(",")
        return source if rest and "ro" not in said and source[:1] in ("/", ".", "~") else ""
    given = dict(part.partition("=")[::2] for part in value.split(",")) if name == "--mount" else {}
    bound = given.get("type") == "bind" and given.keys().isdisjoint(("ro", "readonly"))
    return (given.get("src") or given.get("source") or "") if bound else ""


def _is_elsewhere(source: str, cwds: Sequence[str]) -> bool:
    places = [source] if source[0] in "/~" else [posixpath.join(cwd, source) for cwd in cwds]
    for place in map(posixpath.normpath, places):
        harmless = _HARMLESS.fullmatch(place) and not _OWN_FOLDERS.fullmatch(place)
        if not harmless and not _CACHES.search(place) and not any(under(place, cwd) for cwd in cwds):
            return True
    return False


def is_host_path(source: str, cwds: Sequence[str], *, read_only: bool = False) -> bool:
    """Return whether a mount's source is a part of the host that needs approval: the root, settings, sockets, a home, ..."""
    if source.startswith("~"):
        source = f"/home/~{source[1:]}"
    places = [source] if source.startswith("/") else [posixpath.join(cwd, source) for cwd in cwds if source.startswith(".")]
    for place in places:
        path = "/" + posixpath.normpath(place).strip("/")
        if _SOCKET_NAME.fullmatch(posixpath.basename(path)):
            return True
        if source.startswith(".") and path in cwds:
            continue
        if _HOST.fullmatch(path) and not _HARMLESS.fullmatch(path) and not (read_only and _READ_ONLY_HARMLESS.fullmatch(path)):
            return True
    return False
