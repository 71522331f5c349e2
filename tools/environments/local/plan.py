"""Plan of a sandbox on this machine: its mounts and limits, as the launcher takes them."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from toolcrib.contract.containment import Containment
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.errors import EnvironmentFailed
from toolcrib.contract.paths import with_home
from toolcrib.contract.regex import Regex
from tools.environments import leftovers
from tools.environments.local.keys import without_logins
from tools.environments.local.system_calls import filter_program
from tools.environments.shell.watchdog import watchdog

_START = "import sys; sys.path.append(sys.argv.pop(1)); import _launch; sys.exit(_launch.run(sys.argv))"
"""Program that runs the launcher. The launcher is imported, because Python caches compiled modules but not programs."""
_FOLDER = str(Path(__file__).parent)
INNER = "/dev/.toolcrib"
"""Path in the sandbox of the folder for communication with its shells. Commands that list or clean folders do not look there."""
_TEMPORARY = ("/tmp", "/run", "/var/run", "/var/tmp")  # noqa: S108 - in the sandbox
"""Folders for files that are deleted with the sandbox."""
MASKED = (
    *("~/.ssh", "~/.gnupg", "~/.aws", "~/.azure", "~/.config/gcloud", "~/.docker", "~/.kube", "~/.config/containers"),
    *("~/.config/gh", "~/.config/glab-cli", "~/.config/hub", "~/.config/doctl", "~/.config/rclone", "~/.terraform.d"),
    *("~/.netrc", "~/.pgpass", "~/.my.cnf", "~/.git-credentials", "~/.config/git/credentials", "~/.vault-token", "~/.pypirc"),
    *("~/.cargo/credentials", "~/.cargo/credentials.toml", "~/.gem/credentials"),
    *("~/.password-store", "~/.local/share/keyrings", "~/.mozilla", "~/.thunderbird", "~/.config/google-chrome"),
    *("~/.config/chromium", "~/.config/BraveSoftware", "~/.config/microsoft-edge", "~/.config/vivaldi", "~/.librewolf"),
    *("~/.var/app", "~/snap", "~/.config/op", "~/.oci", "~/.s3cfg", "~/.boto", "~/.databrickscfg", "~/.config/github-copilot"),
    *("~/.claude/.credentials.json", "~/.codex/auth.json", "~/.cache/huggingface/token", "~/.huggingface/token"),
    *("~/.config/toolcrib", "~/.local/state/toolcrib"),
)
"""Paths that are empty in the sandbox by default: commands that read and send files must not find keys."""
_CACHES = (
    ("~/.cache", ""),
    ("~/.npm", "npm"),
    ("~/.cargo/registry", "cargo"),
    ("~/.cargo/git", "cargo"),
    ("~/go/pkg", "go"),
    ("~/.gradle/caches", "gradle"),
    ("~/.m2/repository", "mvn"),
    ("~/.local/share/pnpm", "pnpm"),
    ("~/.bun/install/cache", "bun"),
)
"""Folders of caches, and the program that writes each. A missing one is created if its program is installed."""
PROCESSES = 1024
_INCLUDED = Regex(r"(?im)^[ \t]*path[ \t]*=[ \t]*\"?([^\"\n]+?)\"?[ \t]*$")


@dataclass(frozen=True, slots=True)
class SandboxPlan:
    """The requested sandbox. Paths are absolute, with links resolved.

    ``writable``: folders. ``masked``: files and folders that are empty. ``closed``: files and folders that are read-only
    everywhere. ``links``: symbolic links to masked paths. ``caches``: folders that the sandbox changes only in private copies;
    ``private`` is the folder of the copies. ``blanked``: files that the sandbox sees without passwords.

    ``network``: use this machine's network. ``hosts``: use a separate network. A guard outside the sandbox forwards its
    connections to allowed hosts. ``memory`` is in bytes; 0 means no limit.
    """

    mode: Literal["workspace", "own"] = "workspace"
    writable: tuple[str, ...] = ()
    masked: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    caches: tuple[str, ...] = ()
    private: str = ""
    links: tuple[str, ...] = ()
    blanked: tuple[str, ...] = ()
    network: bool = False
    hosts: bool = False
    processes: int = PROCESSES
    memory: int = 0

    def digest(self) -> str:
        """Return a digest of the requested sandbox, for comparison with the plan of another process."""
        requested = replace(self, writable=tuple(sorted(set(self.writable))), private="", blanked=())
        about = (requested, os.geteuid(), may_mount(), filter_program(), Path(_FOLDER, "_launch.py").read_bytes())
        return hashlib.sha256(repr(about).encode()).hexdigest()

    def containment(self) -> Containment:
        """Return what the sandbox restricts."""
        whole = self.mode == "own"
        writable = ("/",) if whole else self.writable
        return Containment(
            mode=self.mode,
            writable=writable,
            ephemeral=() if whole else (*self.temporary(), *self.caches),
            masked=self.masked,
            read_only=tuple(path for path in self._read_only() if any(is_within(path, one) for one in writable)),
            network="on" if self.network else "hosts" if self.hosts else "none",
        )

    def temporary(self) -> tuple[str, ...]:
        """Return the sandbox's private folders, which are empty when it starts."""
        return () if self.mode == "own" else _temporary(self.writable, tempfile.gettempdir())

    def sockets(self) -> list[str]:
        """Return the paths of this machine's sockets that commands could connect to.

        With ``network``, sockets in writable folders are left out, because they may be the sandbox's own.
        """
        if self.mode == "own":
            return []
        apart = (*self.temporary(), *self.caches, *self.masked, *(self.writable if self.network else ()))
        found = (os.path.realpath(path) for path in listening_sockets() if not any(is_within(path, one) for one in apart))
        return sorted({path for path in found if os.path.lexists(path) and not any(is_within(path, one) for one in apart)})

    def argv(
        self,
        command: Sequence[str],
        root: str = "",
        *,
        links: Iterable[tuple[str, str]] = (),
        person: bool = False,
        line: int = -1,
    ) -> list[str]:
        """Return the command line that runs ``command`` in the sandbox. ``root``: the folder to mount at INNER.

        ``line``: the launcher's descriptor for answers to the network's guard, -1 for none.
        ``links``: pairs of a file and a symbolic link to mount over it, as commands see both.
        """
        ids = "" if may_mount() else f"{os.geteuid()}:{os.getegid()}"
        disk = "rw" if self.mode == "own" else "ro"
        limits = f"processes={self.processes},memory={self.memory},filter={filter_program().hex()}"
        settings = f"ids={ids},disk={disk},network={int(self.network)},person={int(person)},line={line},{limits}"
        all_mounts = [*self._mounts(root), *(("link", path, link) for path, link in links)]
        mounts = [word for mount in all_mounts for word in mount]
        return launcher_argv(settings, *mounts, "--", *command)

    def grant_argv(self, pid: int, folder: str) -> list[str]:
        """Return the command line that makes a folder of the plan writable in the sandbox of the process ``pid``."""
        mounts = [word for mount in self._mounts("") if is_within(mount[1], folder) for word in mount]
        return launcher_argv("grant", str(pid), *mounts)

    def with_folder(self, folder: str) -> SandboxPlan:
        """Return the plan with one more writable folder. Raises EnvironmentFailed for a folder that would open a closed path."""
        for path in (*self.masked, *self.closed):
            if is_within(path, folder) or is_within(folder, path):
                raise EnvironmentFailed(
                    f"{folder} can't be made writable in the sandbox: {path} is closed in it. Choose another folder"
                )
        return replace(self, writable=(*self.writable, folder))

    def _mounts(self, root: str) -> list[tuple[str, str, str]]:
        """Return (kind, path, source) for each mount, outer folders first."""
        hidden = outermost(path for path in self.masked if os.path.lexists(path))
        closed = [path for path in self._read_only() if not any(is_within(path, each) for each in hidden)]
        found = {path: ("tmpfs", "") for path in self.temporary() if path != "/dev/shm" and Path(path).is_dir()}  # noqa: S108 - in the sandbox
        within = [path for path in (*hidden, *closed) if self.mode == "own" or any(is_within(path, one) for one in self.writable)]
        found |= {str(folder): ("bind", "") for path in within for folder in Path(path).parents if self._is_pinned(folder)}
        found |= {f"{folder}/.git": ("bind", "") for folder in self.writable if self.mode == "workspace" and has_git(folder)}
        names = os.path.realpath("/etc/resolv.conf")
        if self.network and self.mode == "workspace" and is_within(names, "/run") and Path(names).exists():
            found[names] = ("ro", names)
        found |= {path: ("cache", f"{self.private}/{number}") for number, path in enumerate(self.caches)}
        found |= {path: ("bind", path) for path in self.writable if self.mode == "workspace"}
        found |= {path: ("ro", "") for path in closed if Path(path).exists() and (self.mode == "own" or path in within)}
        found |= {path: ("ro", f"{self.private}/blank-{number}") for number, path in enumerate(self.blanked)}
        found |= {path: ("hide", "folder" if Path(path).is_dir() else "file") for path in (*hidden, *self.sockets())}
        if root and self.mode == "workspace":
            found[INNER] = ("bind", root)
        return [(kind, path, source) for path, (kind, source) in sorted(found.items())]

    def _is_pinned(self, folder: Path) -> bool:
        """Return whether commands could rename this folder above a mount, and so move the mount away."""
        path = str(folder)
        return path != "/" and (self.mode == "own" or any(is_within(path, one) for one in self.writable if path != one))

    def _read_only(self) -> list[str]:
        """Return the paths that are read-only even in a writable folder: code, and files that make git run programs."""
        return [*self.closed, *(path for folder in self.writable if self.mode == "workspace" for path in hooks_of(folder))]

    def prepare(self) -> SandboxPlan:
        """Create the folders that the sandbox needs. Return the plan with them."""
        for folder in self.writable if self.mode == "workspace" else ():
            if has_git(folder):
                with contextlib.suppress(OSError):  # another account's repository, where commands cannot create it either
                    Path(folder, ".git", "hooks").mkdir(exist_ok=True)
        blanked = dict(without_logins()) if self.mode == "workspace" else {}
        if not (self.caches or blanked) or self.private:
            return self
        base = tempfile.gettempdir()
        leftovers.sweep(base)
        private = os.path.realpath(tempfile.mkdtemp(prefix=f"toolcrib-{os.getpid()}-", dir=base))
        watchdog.enter(private)
        for number in range(len(self.caches)):
            for name in ("upper", "work"):
                Path(private, str(number), name).mkdir(parents=True)
        for number, text in enumerate(blanked.values()):
            Path(private, f"blank-{number}").write_text(text, "utf-8")
        return replace(self, private=private, blanked=tuple(blanked))

    def clean(self) -> None:
        """Delete the folder of private copies."""
        if self.private:
            for number in range(len(self.caches)):
                with contextlib.suppress(OSError):  # the kernel created none
                    Path(self.private, str(number), "work", "work").chmod(0o700)
            shutil.rmtree(self.private, ignore_errors=True)
            watchdog.leave(self.private)


def launcher_argv(*words: str) -> list[str]:
    """Return the launcher's command line with these arguments."""
    return [sys.executable, "-I", "-S", "-c", _START, _FOLDER, *words]


def listening_sockets() -> Iterator[str]:
    """Yield the absolute paths of the Unix sockets of this process's network."""
    with contextlib.suppress(OSError):  # no such file: none can be listed
        for line in Path("/proc/net/unix").read_bytes().splitlines():
            if b" /" in line:
                yield os.fsdecode(line[line.index(b" /") + 1 :])


def has_git(folder: str) -> bool:
    """Return whether the folder contains a git folder ``.git``, not a link or a file of that name."""
    return Path(folder, ".git").is_dir() and not Path(folder, ".git").is_symlink()


def hooks_of(folder: str) -> list[str]:
    """Return the read-only paths of a folder's repository: its hooks and included settings, or the file that names its
    location.
    """
    git = f"{folder}/.git"
    if os.path.islink(git) or not os.path.lexists(git):  # noqa: PTH114 - strings everywhere
        return []
    if os.path.isfile(git):  # noqa: PTH113 - as above
        return [git]
    hooks = f"{git}/hooks"
    has_hooks = os.path.isdir(hooks) and not os.path.islink(hooks)  # noqa: PTH112, PTH114 - as above
    return [*([hooks] if has_hooks else []), *_included(git)]


def _included(git: str) -> list[str]:
    """Return the files that a git configuration includes. Their settings may run programs too."""
    with contextlib.suppress(OSError, ValueError):
        text = Path(git, "config").read_text("utf-8")
        named = _INCLUDED.findall(text) if "[include" in text.casefold() else ()
        paths = [os.path.realpath(Path(git, with_home(name))) for name in named]
        return [path for path in paths if Path(path).is_file()]
    return []


def caches(kind: Literal["private", "shared"], writable: Iterable[str]) -> tuple[str, ...]:
    """Return this account's existing cache folders, for ``private`` only those outside the writable folders.

    Missing folders of installed programs are created first.
    """
    found = []
    for name, program in _CACHES:
        path = os.path.realpath(with_home(name))
        with contextlib.suppress(OSError):  # the home is not writable
            if not Path(path).exists() and Path.home().is_dir() and (not program or shutil.which(program)):
                Path(path).mkdir(parents=True)
        if Path(path).is_dir() and (kind == "shared" or not any(is_within(path, one) for one in writable)):
            found.append(path)
    return _shared(tuple(found))


def masks(paths: Iterable[str]) -> tuple[str, ...]:
    """Return these paths with links resolved, without paths inside others."""
    return _shared(tuple(outermost(map(_resolver(), _absolute(paths)))))


def links_in(paths: Iterable[str]) -> tuple[str, ...]:
    """Return, as absolute paths, the ``paths`` that are symbolic links or are behind one."""
    resolved = _resolver()
    return _shared(tuple(path for path in _absolute(paths) if path != resolved(path)))


def _absolute(paths: Iterable[str]) -> Iterator[str]:
    expanded = _with_home(tuple(paths), os.path.expanduser("~"))  # noqa: PTH111 - strings everywhere
    return (path if path.startswith("/") else str(Path(path).absolute()) for path in expanded)


@functools.lru_cache(16)
def _with_home(paths: Sequence[str], _home: str) -> tuple[str, ...]:
    return tuple(str(with_home(path)) for path in paths)


def _resolver() -> Callable[[str], str]:
    """Return an ``os.path.realpath`` of absolute paths that resolves each folder once, for many paths in few folders."""

    @functools.cache
    def resolved(path: str) -> str:
        folder, name = os.path.split(path)
        if name in ("", ".", ".."):
            return os.path.realpath(path)
        whole = os.path.join(resolved(folder), name)  # noqa: PTH118 - strings everywhere
        return os.path.realpath(whole) if os.path.islink(whole) else whole  # noqa: PTH114 - as above

    return resolved


@functools.lru_cache(16)
def _shared(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return an equal tuple, the same object each time, because many sessions mask the same paths."""
    return paths


@functools.lru_cache(16)
def _temporary(writable: Sequence[str], chosen: str) -> tuple[str, ...]:
    # TMPDIR (``chosen``) is replaced too, because other sessions keep output and their shells' folders there.
    folders = {os.path.realpath(path) for path in (*_TEMPORARY, chosen)} - {"/", *writable}
    return tuple(sorted({*folders, "/dev/shm"}))  # noqa: S108 - as above


def outermost(paths: Iterable[str]) -> list[str]:
    """Return the paths without those inside others, sorted: what applies to a folder applies to all in it."""
    kept: list[str] = []
    for path in sorted(set(paths), key=lambda path: f"{path.rstrip('/')}/"):  # a folder comes right before what is in it
        if not kept or not is_within(path, kept[-1]):
            kept.append(path)
    return sorted(kept)


def is_within(path: str, folder: str) -> bool:
    """Return whether ``path`` is ``folder`` or is inside it."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def may_mount() -> bool:
    """Return whether this process may mount without a user namespace, as root may outside of containers."""
    with contextlib.suppress(OSError, LookupError, ValueError):
        line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff:"))
        return bool(int(line.split()[1], 16) >> 21 & 1)  # CAP_SYS_ADMIN
    return False


def working_folder(path: str) -> str:
    """Return the start folder of commands, which they can write, with links resolved; "" for /, which stays read-only.

    Raises the same errors as ``existing_folder``.
    """
    return "" if os.path.realpath(with_home(path)) == "/" else existing_folder(path, "the working folder")


def existing_folder(path: str, what: str) -> str:
    """Return the folder with links resolved. Raises EnvironmentFailed if it is missing, is / or belongs to all programs."""
    found = os.path.realpath(with_home(path))
    if not Path(found).is_dir():
        wrong = "is not a folder: choose one" if Path(found).exists() else "does not exist: create it or choose another"
        raise EnvironmentFailed(f"{what} {found} {wrong}")
    if found == "/":
        raise EnvironmentFailed(f"{what} is /, which would make the whole machine writable: choose a folder below it")
    if found in (os.path.realpath(tempfile.gettempdir()), "/dev/shm"):  # noqa: S108 - only compared
        raise EnvironmentFailed(
            f"{what} {found} holds the sockets and files of other programs and sessions: choose a folder below it"
        )
    return found
