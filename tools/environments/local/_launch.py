"""Program that makes a sandbox and runs a command as its first process.

Its arguments are ``SETTINGS [KIND PATH SOURCE]... -- COMMAND...``. It runs in ``python -I -S`` and needs no package.
``SETTINGS`` are the fields of ``LaunchPlan`` as NAME=VALUE, separated by commas. It prints the first process's number on its
standard output and stays that process's parent; for a sandbox with a guard of its network, it answers the guard (``_inner``)
until the guard closes the connection. If the sandbox cannot be made, it prints the reason on its standard error.

Other arguments change the sandbox of the process PID: ``grant PID [KIND PATH SOURCE]...`` makes the folder of the first mount
writable, and repeats the other mounts, which are inside it; ``link PID [PATH LINK]...`` mounts symbolic links over files; ``hide
PID PATH...`` makes paths empty.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys

_libc = ctypes.CDLL(None, use_errno=True)
_NEWNS, _NEWCGROUP, _NEWUTS, _NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
_NEWUSER, _NEWPID, _NEWNET = 0x10000000, 0x20000000, 0x40000000
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REC, _PRIVATE = 1, 2, 4, 8, 0x4000, 0x40000
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4
_CLONE_TREE, _RECURSIVE, _EMPTY_PATH = 0x80001, 0x8000, 0x1000
_NO_FOLLOW = 0x100
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""Numbers of system calls; those above 423 are the same on every processor."""
_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}
_REFER, _ABSTRACT_SOCKETS = 1 << 13, 1
"""Rights of Landlock: to move files between folders, and to connect to abstract sockets outside."""
_SET_PDEATHSIG, _SET_SECCOMP, _CAPBSET_DROP, _SET_NO_NEW_PRIVS, _CAP_AMBIENT = 1, 22, 24, 38, 47
_HERE = -100
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_COVERED = ("sys", "sysrq-trigger", "irq", "bus", "fs", "scsi", "acpi", "driver", "mtrr", "dynamic_debug", "pressure")
"""Parts of /proc through which root could change the machine. They are read-only in the sandbox."""
_RESERVED = 300
"""The kernel assigns process numbers below this only once."""


def check(result: int, what: str) -> int:
    """Return ``result``; raise OSError if it is negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def mount(source: str, path: str, kind: str, flags: int, data: str = "") -> None:
    """Mount a new file system. Raises OSError."""
    words = [os.fsencode(word) if word else None for word in (source, path, kind)]
    check(_libc.mount(*words, ctypes.c_ulong(flags), os.fsencode(data) or None), f"mount {kind or 'propagation'} at {path}")


def clone(path: str, *, tree: bool = True) -> int:
    """Return a descriptor of a detached copy of the mounts at ``path``. Raises OSError."""
    flags = _CLONE_TREE | (_RECURSIVE if tree else 0)
    return check(_libc.syscall(_OPEN_TREE, _HERE, os.fsencode(path), flags), f"open_tree {path}")


def set_attributes(fd: int, path: str, add: int, *, clear: int = 0, tree: bool = True) -> None:
    """Change attributes of the mount at ``path`` ("": of ``fd``); with ``tree`` of all mounts below it too. Raises OSError."""
    wanted = (ctypes.c_uint64 * 4)(add, clear, 0, 0)
    flags = (_RECURSIVE if tree else 0) | (0 if path else _EMPTY_PATH)
    check(_libc.syscall(_MOUNT_SETATTR, fd, os.fsencode(path), flags, wanted, ctypes.c_size_t(32)), f"mount_setattr {path}")


def attach(fd: int, path: str) -> None:
    """Mount the copy ``fd`` at ``path``. Raises OSError."""
    check(_libc.syscall(_MOVE_MOUNT, fd, b"", _HERE, os.fsencode(path), 4), f"move_mount to {path}")
    os.close(fd)


class LaunchPlan:
    """The requested sandbox.

    ``ids``: the user and group to map in a user namespace, "" for none. ``disk``: ``ro``, or ``rw`` to leave the disk as it is.
    ``network``: 1 for this machine's network. ``processes`` and ``memory`` (bytes) are limits, 0 for none. ``person``: 1 if the
    command is the user's own shell, which ends with the program that started it. ``line``: the descriptor of the connection to
    the network's guard, -1 for none. ``filter``: the program of the seccomp filter, in hexadecimal digits, "" for none.
    """

    def __init__(self, settings: str, mounts: list[str]) -> None:
        values = dict(word.split("=", 1) for word in settings.split(","))
        self.ids = values["ids"]
        self.is_read_only = values["disk"] == "ro"
        self.has_network, self.is_persons = values["network"] == "1", values["person"] == "1"
        self.processes, self.memory, self.line = int(values["processes"]), int(values["memory"]), int(values["line"])
        self.filter = bytes.fromhex(values["filter"])
        self.mounts = list(zip(mounts[::3], mounts[1::3], mounts[2::3], strict=True))


def main(argv: list[str]) -> int:
    """Make the sandbox, wait for its first process to end, and return the exit code."""
    end = argv.index("--")
    plan, command = LaunchPlan(argv[1], argv[2:end]), argv[end + 1 :]
    if plan.line >= 0:
        # Imported now, because the sandbox's mounts may cover its folder.
        import _inner  # type: ignore[import-not-found]  # it is beside this program, and here in no package
    try:
        _unshare(plan)
        child = os.fork()
        if child == 0:
            _become_first(plan, command)
    except OSError as error:
        sys.stderr.write(f"{error.strerror}\n")
        return 125
    if not plan.is_persons:
        os.write(1, b"%d\n" % child)
        for fd in range(3):  # closed, so that the readers see the end of the first process
            os.close(fd)
    else:
        _libc.signal(2, ctypes.c_void_p(1))  # SIGINT is for the user's shell
    if plan.line >= 0:
        _inner.serve(plan.line)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) & 0xFF


def _become_first(plan: LaunchPlan, command: list[str]) -> None:
    try:
        if plan.line >= 0:  # commands must not reach the guard
            os.close(plan.line)
        if plan.is_persons:
            check(_libc.prctl(_SET_PDEATHSIG, 9, 0, 0, 0), "prctl")
        _build(plan)
        os.chdir(os.getcwd())  # noqa: PTH109 - pathlib is slow to import; mounts now cover the current folder
        _limit(plan)
        for number in (13, 25):  # SIGPIPE and SIGXFSZ, which Python ignores
            _libc.signal(number, ctypes.c_void_p(0))
        _leave_keyring()
        _drop_privileges()
        if plan.is_read_only:
            _restrict()
        _refuse_calls(plan.filter)
        os.execvp(command[0], command)  # noqa: S606 - runs the command itself
    except OSError as error:
        sys.stderr.write(f"{error.strerror or error}\n")
        sys.stderr.flush()
    finally:
        os._exit(125)


def grant(pid: str, words: list[str]) -> None:
    """Make a folder writable in a running sandbox. Raises OSError."""
    mounts = list(zip(words[::3], words[1::3], words[2::3], strict=True))
    path = mounts[0][1]
    outside = os.stat(path)  # noqa: PTH116 - as below
    try:
        tree = clone(path)
    except OSError:  # only root may do this; for other users, copy the sandbox's own read-only mount of the folder
        tree = -1
    _join(pid)
    if tree < 0:
        inside = os.stat(path)  # noqa: PTH116 - as below
        if (inside.st_dev, inside.st_ino) != (outside.st_dev, outside.st_ino):
            raise FileNotFoundError(2, "another folder has its name in the sandbox")
        tree = clone(path)
        set_attributes(tree, "", 0, clear=_ATTR_RDONLY, tree=False)
    kept = {below: clone(below) for kind, below, _ in mounts if kind in ("tmpfs", "cache", "hide") and os.path.lexists(below)}
    _put("bind", path, tree)
    for kind, below, _ in mounts[1:]:
        if below in kept or kind in ("bind", "ro"):
            _put(kind, below, kept.get(below, -1))


def link(pid: str, words: list[str]) -> None:
    """Mount symbolic links over files in a running sandbox. Raises OSError."""
    _join(pid)
    for path, source in zip(words[::2], words[1::2], strict=True):
        _link(path, source)


def hide(pid: str, paths: list[str]) -> None:
    """Make paths empty in a running sandbox. Raises OSError."""
    _join(pid)
    for path in paths:
        is_folder = os.path.isdir(path)  # noqa: PTH112 - as above
        _point(path, is_folder=is_folder)
        _hide(path, -1, is_folder=is_folder)


def _join(pid: str) -> None:
    """Enter the sandbox of a process."""
    if os.stat(f"/proc/{pid}/ns/user").st_ino != os.stat("/proc/self/ns/user").st_ino:  # noqa: PTH116 - as below
        _enter(f"/proc/{pid}/ns/user")
    _enter(f"/proc/{pid}/ns/mnt")


def _enter(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    check(_libc.setns(fd, 0), f"setns {path}")
    os.close(fd)


def _link(path: str, source: str) -> None:
    tree = _libc.syscall(_OPEN_TREE, _HERE, os.fsencode(source), _CLONE_TREE | _NO_FOLLOW)
    attach(check(tree, f"open_tree {source}"), path)


def _hide(path: str, null: int, *, is_folder: bool) -> None:
    """Mount an empty folder or file over ``path``, if it exists. The file is ``null``, or if that is -1 a copy of the sandbox's
    /dev/null.
    """
    try:
        if is_folder and os.path.lexists(path):
            mount("tmpfs", path, "tmpfs", _NOSUID | _NODEV | _RDONLY, "mode=0755")
        elif os.path.lexists(path):
            _put("hide", path, null if null >= 0 else clone("/dev/null"))
    except FileNotFoundError:  # a socket may have just been deleted
        if os.path.lexists(path):
            raise


def _unshare(plan: LaunchPlan) -> None:
    flags = _NEWNS | _NEWCGROUP | _NEWUTS | _NEWIPC | _NEWPID | (_NEWUSER if plan.ids else 0)
    check(_libc.unshare(flags | (0 if plan.has_network else _NEWNET)), "unshare")
    if plan.ids:
        user, group = plan.ids.split(":")
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123 - pathlib takes as long to import as everything else here
                file.write(text)


def _build(plan: LaunchPlan) -> None:
    mount("", "/", "", _REC | _PRIVATE)  # later mounts on this machine do not appear in the sandbox
    trees = {path: clone(source) for kind, path, source in plan.mounts if kind in ("bind", "ro") and source}
    trees |= {path: clone("/dev/null") for kind, path, source in plan.mounts if kind == "hide" and source == "file"}
    trees |= {path: _cache(path, source) for kind, path, source in plan.mounts if kind == "cache"}
    devices = {name: clone(f"/dev/{name}") for name in _DEVICES} if plan.is_read_only else {}
    if plan.is_read_only:
        set_attributes(_HERE, "/", _ATTR_RDONLY | _ATTR_NODEV)
    _mount_proc(plan)
    size = f"size={plan.memory}," if plan.memory else ""
    if plan.is_read_only:
        _mount_dev(devices)
        trees |= _temporary([path for kind, path, _ in plan.mounts if kind == "tmpfs"], size)
    for kind, path, source in plan.mounts:
        if kind == "hide":
            _hide(path, trees.get(path, -1), is_folder=source == "folder")
        elif kind != "link":
            _put(kind, path, trees.get(path, -1))
    try:
        for kind, path, source in plan.mounts:
            if kind == "link":
                _link(path, source)
    except OSError:  # the kernel cannot mount links, or git has just replaced the file
        os.write(1, b"unlinked\n")
    if plan.is_read_only:
        set_attributes(_HERE, "/dev", _ATTR_RDONLY, tree=False)
    if not plan.has_network:
        _raise_loopback()


def _put(kind: str, path: str, tree: int) -> None:
    """Mount ``tree`` at ``path``; -1 stands for the sandbox's current content of ``path``."""
    tree = clone(path) if tree < 0 else tree
    set_attributes(
        tree, "", _ATTR_RDONLY if kind == "hide" else _ATTR_NOSUID | _ATTR_NODEV | (_ATTR_RDONLY if kind == "ro" else 0)
    )
    _point(path, is_folder=os.fstat(tree).st_mode & 0o170000 == 0o040000)
    attach(tree, path)


def _point(path: str, *, is_folder: bool) -> None:
    """Create a mount point in the sandbox's temporary folders. Elsewhere every mount point exists, and the disk is read-only."""
    if os.path.lexists(path):
        return
    os.makedirs(path if is_folder else os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 - as above
    if not is_folder:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def _cache(path: str, private: str) -> int:
    """Return a mount that shows the folder ``path`` and keeps changes in ``private``; an empty one if no overlay is possible."""
    upper, work = f"{private}/upper", f"{private}/work"
    if not any(sign in path + private for sign in ",:\\"):
        try:
            mount("overlay", upper, "overlay", _NOSUID | _NODEV, f"lowerdir={path},upperdir={upper},workdir={work},userxattr")
        except OSError:  # such as a file system that cannot be part of an overlay
            return clone(upper)
    return clone(upper)


def _mount_proc(plan: LaunchPlan) -> None:
    mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC)
    release = tuple(int("".join(filter(str.isdigit, part)) or "0") for part in os.uname().release.split(".")[:2])
    if plan.processes and release >= (6, 14):  # in older kernels the limit would apply to the whole machine
        try:
            with open("/proc/sys/kernel/pid_max", "w") as file:  # noqa: PTH123 - as above
                file.write(str(plan.processes + _RESERVED))
        except OSError:  # RLIMIT_NPROC limits all users but root, and counts toolcrib's processes too
            pass
    for name in _COVERED:
        if os.path.lexists(f"/proc/{name}"):
            _put("ro", f"/proc/{name}", -1)


def _temporary(paths: list[str], size: str) -> dict[str, int]:
    """Mount /dev/shm. Return a mount of an empty folder for each of ``paths``. All share the file system and its size limit."""
    shared = "/dev/shm"  # noqa: S108 - the sandbox's own
    mount("tmpfs", shared, "tmpfs", _NOSUID | _NODEV, f"{size}mode=0755")
    trees = {}
    for number, path in enumerate([shared, *paths]):
        os.mkdir(f"{shared}/{number}")  # noqa: PTH102 - as above
        os.chmod(f"{shared}/{number}", 0o1777)  # noqa: PTH101, S103 - as above; each is a temporary folder
        trees[path] = clone(f"{shared}/{number}", tree=False)
    attach(trees.pop(shared), shared)
    return trees


def _mount_dev(devices: dict[str, int]) -> None:
    mount("tmpfs", "/dev", "tmpfs", _NOSUID, "mode=0755")
    for name, tree in devices.items():
        set_attributes(tree, "", _ATTR_RDONLY)  # protects the device's mode and times from root; data can still be written to it
        _point(f"/dev/{name}", is_folder=False)
        attach(tree, f"/dev/{name}")
    for name, target in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(f"/proc/self/{target}", f"/dev/{name}")  # noqa: PTH211 - as above
    os.symlink("pts/ptmx", "/dev/ptmx")  # noqa: PTH211 - as above
    for name in ("pts", "shm"):
        os.mkdir(f"/dev/{name}")  # noqa: PTH102 - as above
    mount("devpts", "/dev/pts", "devpts", _NOSUID | _NOEXEC, "newinstance,ptmxmode=0666,mode=620")


def _raise_loopback() -> None:
    fd = check(_libc.socket(2, 2, 0), "socket")
    request = ctypes.create_string_buffer(b"lo".ljust(16, b"\0") + (0x41).to_bytes(2, sys.byteorder), 40)  # up and running
    check(_libc.ioctl(fd, ctypes.c_ulong(0x8914), request), "raise lo")
    os.close(fd)


def _limit(plan: LaunchPlan) -> None:
    for kind, value in ((resource.RLIMIT_NPROC, plan.processes), (resource.RLIMIT_DATA, plan.memory)):
        hard = resource.getrlimit(kind)[1]
        if value and (hard == resource.RLIM_INFINITY or hard > value):
            resource.setrlimit(kind, (value, value))


def _drop_privileges() -> None:
    """Drop all capabilities, also from the bounding set: root's programs would regain them from there."""
    check(_libc.prctl(_CAP_AMBIENT, 4, 0, 0, 0), "prctl")
    capability = 0
    while _libc.prctl(_CAPBSET_DROP, capability, 0, 0, 0) == 0:
        capability += 1
    check(-1 if capability == 0 else 0, "drop capabilities")
    header, none = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    check(_libc.capset(header, none), "capset")
    check(_libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")


def _leave_keyring() -> None:
    """Join an empty session keyring, because no namespace hides the keys of the login session."""
    if _libc.syscall(_KEYCTL.get(os.uname().machine, -1), 1, None) < 0 and ctypes.get_errno() not in (1, 38):
        check(-1, "keyctl")  # 1 and 38: the kernel has no keys, or a filter blocks them for commands too


def _restrict() -> None:
    """Use Landlock, as far as this kernel supports it, to block what no namespace blocks: abstract sockets, which belong to the
    network, and mounts by root in a new namespace, such as a writable mount of the machine's control groups.
    """
    version = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)
    handled, scoped = 0 if os.geteuid() or version < 2 else _REFER, _ABSTRACT_SOCKETS if version >= 6 else 0
    if not handled and not scoped:
        return
    wanted = (ctypes.c_uint64 * 3)(handled, 0, scoped)
    rules = check(_libc.syscall(_CREATE_RULESET, wanted, ctypes.c_size_t(24 if scoped else 8), 0), "Landlock")
    if handled:  # a domain that handles any file right may not mount, and may move files only as a rule allows
        root = os.open("/", os.O_PATH | os.O_CLOEXEC)
        rule = ctypes.create_string_buffer(handled.to_bytes(8, sys.byteorder) + root.to_bytes(4, sys.byteorder), 12)
        check(_libc.syscall(_ADD_RULE, rules, 1, rule, 0), "Landlock")
        os.close(root)
    check(_libc.syscall(_RESTRICT_SELF, rules, 0), "Landlock")
    os.close(rules)


def _refuse_calls(program: bytes) -> None:
    """Install the filter of system calls that system_calls.py describes."""
    if program:
        buffer = ctypes.create_string_buffer(program, len(program))
        given = (ctypes.c_uint64 * 2)(len(program) // 8, ctypes.addressof(buffer))  # struct sock_fprog on little-endian machines
        check(_libc.prctl(_SET_SECCOMP, 2, given, 0, 0), "seccomp")


def run(argv: list[str]) -> int:
    """Run the action that the arguments name. Return the exit code, 125 if the action fails."""
    changes = {"grant": grant, "link": link, "hide": hide}
    if argv[1] not in changes:
        return main(argv)
    try:
        changes[argv[1]](argv[2], argv[3:])
    except OSError as error:
        sys.stderr.write(f"{error.strerror}\n")
        return 125
    return 0
