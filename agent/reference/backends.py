"""A page for each backend, which runs commands and has files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agent.reference.page import Page, code, index

_WORDS = """\
Where commands run and files lie, as `terminal.backend` or `--backend` names it. `toolcrib env` lists them and `toolcrib env
test NAME` tries one. A session stays in its backend: it never runs elsewhere unless a person says so.
[Settings](../settings/environments.md). A plugin may add others by the hook
[`register_environment`](../hooks/register_environment.md)."""
_EACH: Mapping[str, str] = {
    "local": """\
Commands run on this machine, in a bash that stays: its folder, variables and functions are there for the next call. They have
your rights. What is dangerous is asked about. `sandbox.mode: workspace` puts them in a sandbox.""",
    "bubblewrap": """\
Commands run on this machine in a sandbox (Linux): only the working folder, `environments.local.writable`, private caches and a
private `/tmp` can be written, what is in `masked` can't be seen, and there is network only with `network: true`. It needs no
program besides toolcrib. `toolcrib doctor` says whether the kernel allows it. The program bubblewrap made it once.""",
    "docker": """\
Commands run in a container of `environments.docker.image`, through the Docker API. It sees the folder that the session starts
in, and may write it, unless `environments.docker.project` says `ro` or `none`; other folders only where `mounts` names them;
toolcrib's own files never. There is no network unless `network` names one. `toolcrib env` lists our containers, `toolcrib env
prune` removes what is left of them. It needs an engine that this account may use, at `DOCKER_HOST` or the usual socket.""",
    "ssh": """\
Commands run on another host, over one connection that stays. Host keys are checked against `known_hosts`. A link that heals
goes on; one that does not is reported, with the words that a command may have run.""",
}


def pages() -> Iterator[Page]:
    """Yield an index and a page for each backend."""
    from agent.backends import BUILT_IN

    yield index("reference/backends/index", "Backends", _WORDS, BUILT_IN)
    for name in BUILT_IN:
        yield Page(f"reference/backends/{name}", f"# {code(name)}\n\n{_EACH[name]}\n\nTry it: `toolcrib env test {name}`.\n")
