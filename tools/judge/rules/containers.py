"""Rules: docker, podman, compose, nerdctl, lxc, incus. Options that give a container access to the host, and bulk removals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tools.judge.file_view import Looks
from tools.judge.rules._mounts import elsewhere_given, host_built_with, host_given, is_host_path
from tools.judge.rules._program import MANY, Program, several
from tools.judge.table import FED, ActView, Test, first_operand, operand, opt, rule, text, value, word

_DOCKER = "docker podman nerdctl finch docker-compose podman-compose lima"
_WHY_HOST = "gives the container access to the host"
docker = Program(
    "-H --host -c --context --config -l --log-level --tlscacert --tlscert --tlskey -f --file -p"
    " --project-name --profile --env-file"
    " --project-directory --ansi --parallel --progress --url --connection --root --runroot --namespace --address --snapshotter"
)
lxc = Program("--project --remote")
_ALL = opt("-a --all")
_HELP = word("--help")
"""Test for ``--help``. Not to be used for ``run``, after which it may be an option of another program."""

_GIVES_HOST = Test(lambda view: bool(host_given(view)))


_GIVES_ELSEWHERE = Test(lambda view: bool(elsewhere_given(view)) and not host_given(view))
_BUILT_WITH_HOST = Test(lambda view: bool(host_built_with(view)))


def _run(test: Test) -> Test:
    return docker("run|create", test) | docker("container run|create", test) | docker("compose run", test)


def _running(view: ActView, name: Callable[[ActView], Any]) -> Any:
    """Return the result of ``name`` for the words after ``run`` or ``create``, or for all words if that result is empty."""
    for path in ("run|create", "container run|create", "compose run"):
        if found := docker.at(path, name)(view):
            return found
    return name(view)


def _given(view: ActView) -> str:
    return str(_running(view, host_given))


def _given_elsewhere(view: ActView) -> str:
    found = _running(view, elsewhere_given)
    return found[0].text if found else ""


def _outside(view: ActView, looks: Looks) -> bool:
    """Return whether the container may write to more of the host than the workspace and folders for temporary files."""
    return not looks.are_inside(view.act, _running(view, elsewhere_given))


def _removes(noun: str, verbs: str, test: Test) -> Test:
    """Return a test for ``docker rm`` and ``docker container rm``."""
    return docker(verbs, test) | docker(f"{noun} {verbs}", test)


def _lxc_source(view: ActView) -> bool:
    return any(word.startswith("source=") and is_host_path(word[7:], view.act.cwds) for word in view.words)


RULES = (
    rule(
        "container.host",
        "ask-once",
        _DOCKER,
        _run(_GIVES_HOST),
        _WHY_HOST,
        at=_given,
        yes=(
            "docker run -v /:/mnt -it alpine",
            "docker run --rm -itv /etc:/x alpine",
            "docker run --privileged alpine",
            "podman container run --pid=host alpine",
            "docker run -v /var/run/docker.sock:/var/run/docker.sock x",
            "docker run --mount type=bind,source=/,target=/host alpine",
            "docker -H x create --cap-add SYS_ADMIN alpine",
            "docker run --device=/dev/sda:/dev/sda alpine",
            "docker run --security-opt seccomp=unconfined alpine",
        ),
        no=(
            "docker run -v ./src:/src alpine",
            "docker run -v data:/data postgres",
            "docker run alpine ls --privileged",
            "docker run -e PRIV=--privileged alpine",
            "docker run -v /etc/localtime:/etc/localtime:ro x",
            "docker run --device /dev/dri x",
        ),
    ),
    rule(
        "container.host",
        "ask-once",
        _DOCKER,
        _run(_GIVES_ELSEWHERE),
        "lets the container write to a folder of the host, outside of the workspace",
        at=_given_elsewhere,
        seen=_outside,
        yes=(
            "docker run -v /home/dev/photos:/p alpine",
            "docker run -v ~/photos:/p alpine",
            "docker run -v ../other:/o alpine",
            "podman create --volume=/srv/www:/w:z alpine",
            "docker run --mount type=bind,source=/opt/app,target=/a alpine",
        ),
        no=(
            "docker run -v /home/dev/photos:/p:ro alpine",
            'docker run -v "$PWD/out":/out -v ~/.cache/x:/c -v /tmp/x:/x -v db:/db alpine',
            "docker run --mount type=bind,source=/opt/app,target=/a,readonly alpine",
            'docker run -v "$(git rev-parse --show-toplevel)":/w alpine',
        ),
    ),
    rule(
        "container.host",
        "ask-once",
        f"{_DOCKER} buildah",
        docker("build|bud", _BUILT_WITH_HOST)
        | docker("image|buildx|builder build", _BUILT_WITH_HOST)
        | docker("exec", opt("--privileged"))
        | docker("container exec", opt("--privileged"))
        | docker("build|buildx", text(r"--allow[= ](?:security\.insecure|device)|--security-opt[= ]\w*[=:]?unconfined"))
        | docker("plugin install", opt("--grant-all-permissions"))
        | docker("service create", Test(lambda view: any(is_host_path(m, ()) for m in _mount_sources(view)))),
        _WHY_HOST,
        yes=(
            "podman build -v /:/host .",
            "buildah bud --volume=/:/host .",
            "docker build --security-opt seccomp=unconfined .",
            "podman build --cap-add=ALL --pid host -t x .",
            "docker exec --privileged app sh",
            "docker buildx build --allow security.insecure .",
            "docker service create --mount type=bind,src=/,dst=/h x",
        ),
        no=(
            "docker exec app sh",
            "docker buildx build .",
            "podman build -v ./cache:/cache -t x .",
            "docker build --network=host .",
        ),
    ),
    rule(
        "container.host",
        "ask-once",
        "ctr crictl runc crun kata-runtime",
        text(r"\brun\b.*(?:--privileged|src=/(?:,|etc|root|var/run|run|proc|sys|dev)|--mount [^ ]*src=/,)"),
        _WHY_HOST,
        yes=(
            "ctr run --privileged docker.io/library/alpine:latest x",
            "ctr run --mount type=bind,src=/,dst=/h,options=rbind a b",
        ),
        no=("ctr run docker.io/library/alpine:latest x",),
    ),
    rule(
        "container.host",
        "ask-once",
        "systemd-nspawn apptainer singularity",
        text(
            r"--bind(?:-ro)?[= ]/(?::|[ ,]|$|etc|root|boot|dev|proc|sys)|-B /(?::|,| |$)|-D /(?: |$)"
            r"|--capability[= ](?:all|CAP_SYS_ADMIN)"
        ),
        _WHY_HOST,
        yes=("systemd-nspawn --bind=/ -D rootfs", "apptainer exec -B /:/host x.sif sh"),
        no=("systemd-nspawn -D rootfs", "apptainer exec x.sif ls"),
    ),
    rule(
        "container.host",
        "ask-once",
        "nsenter",
        value("-t --target", "1") | opt("-a --all"),
        "enters the host's own namespaces",
        yes=("nsenter -t 1 -m -u -i -n sh", "nsenter --target 1 --mount bash"),
        no="lsns",
    ),
    rule(
        "container.host",
        "ask-once",
        "dockerd",
        text(r"(?:-H|--host)[= ]?tcp://(?!127\.|localhost)"),
        "lets other hosts control this host's containers",
        yes="dockerd -H tcp://0.0.0.0:2375",
        no="dockerd -H unix:///run/d.sock",
    ),
    rule(
        "container.prune",
        "ask",
        _DOCKER,
        (
            docker("system prune")
            | docker("volume|container|pod|machine prune")
            | docker("image prune", _ALL)
            | docker("system reset")
            | docker("system df", opt("--prune"))
        )
        & ~_HELP,
        "removes containers, images or volumes that are not in use, or all of them",
        yes=("docker system prune --all --force", "docker volume prune -f", "docker image prune -a", "podman system reset"),
        no=("docker system df", "docker image ls", "docker builder prune -f", "docker network prune"),
    ),
    rule(
        "container.remove",
        "ask",
        _DOCKER,
        (
            _removes("container", "rm|kill|stop|remove|pause", (_ALL | MANY | operand(r".*[*].*")))
            | _removes("container", "rm|remove", opt("-v --volumes") & several(1) & opt("-f --force") | several(3))
            | docker("rmi", _ALL | several(4))
            | docker("image rm|remove", _ALL | several(4))
            | docker("pod rm|kill|stop", _ALL | MANY)
            | docker("network rm|remove", MANY)
        )
        & ~_HELP,
        "removes or stops containers or images in bulk",
        yes=(
            "docker rm -f $(docker ps -aq)",
            "docker ps -q | xargs docker kill",
            "podman rm -af",
            "docker container rm a b c",
            "docker rmi -f $(docker images -q)",
        ),
        no=("docker rm web", "docker stop web", "docker ps -a", "docker run --rm -a stdin x", "docker rmi app:old"),
    ),
    rule(
        "container.remove-volumes",
        "ask",
        _DOCKER,
        (
            docker("volume rm|remove", operand(".+") | FED | _ALL)
            | docker("compose down", opt("-v --volumes") | text(r"--rmi[= ]all"))
            | docker("down", opt("-v --volumes") | text(r"--rmi[= ]all"))
            | docker("compose rm", opt("-v"))
            | docker("machine rm|reset")
        )
        & ~_HELP,
        "deletes volumes with the data in them",
        at=docker.at("volume rm|remove", first_operand),
        yes=(
            "docker volume rm pgdata",
            "docker compose -f x.yml down --volumes",
            "docker-compose down -v --remove-orphans",
            "podman volume rm -a",
            "podman machine rm -f",
        ),
        no=("docker compose down", "docker volume ls", "docker compose up -d", "docker compose down --remove-orphans"),
    ),
    rule(
        "container.remove-services",
        "ask",
        _DOCKER,
        (
            docker("stack|service|node|secret|config rm|remove|down", operand(".+") | FED)
            | docker("swarm leave")
            | docker("node update", text(r"--availability[= ]drain"))
            | docker("service scale", operand(r".+=0"))
            | docker("service update", text(r"--replicas[= ]0(?: |$)"))
            | docker("kube down")
            | docker("compose kill", ~operand(".+") & opt("--remove-orphans"))
        )
        & ~_HELP,
        "removes services of a cluster",
        yes=("docker stack rm shop", "docker swarm leave --force", "docker service rm web", "docker service scale web=0"),
        no=("docker stack ls", "docker service ls", "docker service scale web=3", "docker service update --image x web"),
    ),
    rule(
        "container.remove",
        "ask",
        "crictl ctr runc buildah",
        word(r"rm|rmp|rmi|delete|remove|del|kill") & (_ALL | MANY | opt("-f --force --prune")),
        "removes containers or images in bulk",
        yes=("crictl rmi --prune", "crictl rmp -af", "runc delete -f x"),
        no=("crictl ps", "ctr images ls"),
    ),
    rule(
        "container.remove",
        "ask",
        "lxc incus lxd",
        lxc("delete|rm", operand(".+") | FED)
        | lxc("storage|image|project|network|profile|snapshot|cluster|storage-volume", operand("delete|rm|remove", at=0))
        | lxc("storage volume|bucket delete|rm")
        | lxc("stop", _ALL)
        | lxc("restore|rebuild")
        | lxc("snapshot restore"),
        "deletes containers, images or storage",
        at=lxc.at("delete|rm", first_operand),
        yes=("lxc delete -f web", "incus delete web", "lxc storage delete pool", "lxc storage volume delete pool v"),
        no=("lxc list", "incus stop web", "lxc image list"),
    ),
    rule(
        "container.host",
        "ask-once",
        "lxc incus",
        (lxc("config device", operand("add", at=0)) & Test(_lxc_source))
        | text(r"security\.privileged[= ]true|raw\.lxc|security\.nesting=true.*security\.privileged"),
        _WHY_HOST,
        yes=("lxc config device add web root disk source=/ path=/mnt", "lxc launch ubuntu:24.04 x -c security.privileged=true"),
        no=("lxc config device add web src disk source=/home/dev/project path=/src", "lxc launch ubuntu:24.04 x"),
    ),
    rule(
        "container.remove",
        "ask",
        "lxc-destroy lxc-snapshot distrobox-rm",
        (Test(lambda view: view.name != "lxc-snapshot") | opt("-d --destroy -r --restore")) & ~opt("-? -h"),
        "deletes a container",
        yes=("lxc-destroy -n web", "lxc-snapshot -n web -d snap0"),
        no=("lxc-snapshot -n web", "lxc-destroy --help"),
    ),
    rule(
        "container.remove",
        "ask",
        "distrobox toolbox toolbx",
        Program()("rm|rmi"),
        "deletes a container",
        yes=("distrobox rm dev", "toolbox rm -f dev"),
        no=("distrobox list", "toolbox enter dev"),
    ),
    rule(
        "container.remove-image",
        "ask",
        "crane gcrane skopeo regctl oras apptainer singularity",
        (Program()("delete|rmi") | Program()("tag|manifest|image", operand("delete|rm", at=0)))
        & ~operand("help", at=0)
        & ~opt("-h"),
        "deletes an image that others pull",
        yes=("crane delete x.test/app:1", "skopeo delete docker://x.test/app:1", "gcrane gc x.test/p | xargs -n1 gcrane delete"),
        no=("crane ls x.test/app", "skopeo inspect docker://x.test/app", "apptainer exec a.sif delete"),
    ),
)


def _mount_sources(view: ActView) -> list[str]:
    return [part.partition("=")[2] for word in view.words for part in word.split(",") if part.startswith(("src=", "source="))]
