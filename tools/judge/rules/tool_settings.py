"""Rules: commands that set, for every project, the programs that other tools run and the hosts that they connect to."""

from __future__ import annotations

from collections.abc import Iterator

from toolcrib.contract.regex import Regex
from tools.judge.rules._hosts import LOCAL_URL
from tools.judge.rules._program import Program
from tools.judge.rules.persistence import plain_editor
from tools.judge.table import ActView, Test, operand, opt, rule, sub, text, word

_PROGRAMS = Regex(
    r"(?:.*[.:_/-])?(?:credential_process|exec-command|command|pager|editor|browser|shell|script|python|plugins?|aliases\.\w+)"
)
"""Keys of settings whose value a tool runs."""
_ENDPOINTS = Regex(
    r"(?:.*[.:_/])?(?:endpoint(?:[_-]?urls?)?|server|registry|npmRegistryServer|(?:https?-?)?proxy(?:[._/-](?:url|address|https?))?|index[_-]url|channels"
    r"|channel_alias|host|api_?(?:host|url)|http_unix_socket)|(?:mirror|repo|repositories|api_endpoint_overrides)[./].*",
)
"""Keys of settings whose value a tool connects to."""
_CHOOSES = Regex(r".*(?:pager|editor|browser)")
_PLAIN = Regex(r"[\w-]*")
_ADDRESS = Regex(r"\w[\w+.-]*://.+|[\w-]+(?:\.[\w-]+)+(?::\d+)?(?:/.*)?|[\w-]+:\d+.*|\.{0,2}/.+")
_IN_PROJECT = word("--local|--project|--location=project") | text(r"(?:^| )(?:--location|-L) project(?: |$)")


def _pairs(view: ActView) -> Iterator[tuple[str, str]]:
    """Yield possible settings: ``KEY VALUE``, ``KEY=VALUE``, ``--KEY VALUE`` and ``--KEY=VALUE``."""
    words = view.words
    for at, one in enumerate(words):
        key, assigned, given = one.lstrip("-").partition("=")
        yield key, given if assigned else words[at + 1] if at + 1 < len(words) else ""


def _names_program(view: ActView) -> bool:
    return any(
        given and _PROGRAMS.fullmatch(key) and not (_CHOOSES.fullmatch(key) and (plain_editor(given) or _PLAIN.fullmatch(given)))
        for key, given in _pairs(view)
    )


def _names_endpoint(view: ActView) -> bool:
    found = [given for key, given in _pairs(view) if _ENDPOINTS.fullmatch(key)]
    return any(_ADDRESS.fullmatch(given) and not LOCAL_URL.fullmatch(given) for given in found)


_ENDPOINT = Test(_names_endpoint) & ~_IN_PROJECT
_NAMES = (Test(_names_program) | Test(_names_endpoint)) & ~_IN_PROJECT
_DOCKER_HOST = text(r"\bhost=(?!unix://|npipe://|tcp://(?:localhost|127\.)|fd://)\S|^context import\b")
_REMOTE_URL = text(r"\w://(?!localhost|127\.)")
_REMOTE = operand(r"(?:tcp|ssh|docker-container)://(?!localhost|127\.).*")

RULES = (
    rule(
        "persist.setting",
        "ask-once",
        "aws kubectl oc kubecolor gh glab gcloud az jj flyctl doctl argocd snap pdm rye uv poetry",
        (sub("configure|config set|set-credentials|set-cluster|add") | sub("set system")) & _NAMES,
        "changes which programs a tool runs, or which host it talks to, from now on",
        yes=(
            "aws configure set credential_process ./x.sh",
            "aws configure set default.s3.endpoint_url https://x.test",
            "kubectl config set-credentials me --exec-command=./x.sh",
            "kubectl config set users.me.exec.command ./x.sh",
            "kubectl config set-cluster dev --server https://x.test",
            "gh config set pager ./x.sh",
            "glab config set browser './x.sh -a'",
            "gcloud config set api_endpoint_overrides/storage https://x.test/",
            "jj config set --user ui.pager ./x.sh",
        ),
        no=(
            "aws configure set region eu-west-1",
            "aws configure set endpoint_url http://localhost:4566",
            "kubectl config set-context --current --namespace=dev",
            "kubectl config set-cluster kind --server=https://127.0.0.1:6443",
            "gh config set pager 'delta --side-by-side'",
            "gh config set editor 'code --wait'",
            "gh config get pager",
            "gcloud config set project x",
        ),
        effect="remote",
    ),
    rule(
        "persist.setting",
        "ask-once",
        "git",
        sub("config") & opt("--global --system") & _ENDPOINT & ~opt("--get --get-all --unset"),
        "sends git's fetches and pushes through another host",
        yes=("git config --global http.proxy http://x.test:8080", "git config set --global http.https://a.test.proxy x.test:80"),
        no=("git config --global http.proxy http://localhost:3128", "git config --global --unset http.proxy"),
        effect="remote",
    ),
    rule(
        "persist.setting",
        "ask-once",
        "npm pnpm yarn bun",
        (sub("config|c set|add") | sub("set")) & _ENDPOINT,
        "changes where packages come from, for every project",
        yes=(
            "npm config set registry https://x.test/",
            "npm set @me:registry=https://x.test/",
            "npm config set https-proxy http://x.test:8080",
        ),
        no=(
            "npm config set registry http://localhost:4873/",
            "npm config set registry https://x.test/ --location=project",
            "yarn config set nodeLinker node-modules",
        ),
    ),
    rule(
        "persist.setting",
        "ask-once",
        "poetry conda mamba micromamba bundle bundler composer gem dotnet nuget",
        (
            (sub("config") & (_ENDPOINT | (opt("-g --global --add") & _REMOTE_URL)))
            | (((sub("sources") & opt("-a --add")) | sub("nuget|sources add|update")) & _REMOTE_URL)
        )
        & ~_IN_PROJECT,
        "changes where packages come from, for every project",
        yes=(
            "poetry config repositories.x https://x.test/simple",
            "conda config --add channels https://x.test/c",
            "bundle config set mirror.https://a.test https://x.test",
            "composer config -g repositories.x composer https://x.test",
            "gem sources --add https://x.test",
            "dotnet nuget add source https://x.test/v3",
        ),
        no=(
            "conda config --add channels conda-forge",
            "bundle config set --local path vendor/bundle",
            "composer config repositories.x path ../x",
            "gem sources --list",
            "poetry config virtualenvs.in-project true",
        ),
    ),
    rule(
        "persist.setting",
        "ask-once",
        "gh glab",
        Program("-R --repo")("alias set", opt("--shell -s") | operand(r"!.*")),
        "makes a word of this tool run a shell command",
        yes=("gh alias set x '!sh x.sh'", "glab alias set --shell x 'sh x.sh'"),
        no=("gh alias set co 'pr checkout'", "gh alias list"),
    ),
    rule(
        "persist.setting",
        "ask-once",
        "docker podman nerdctl",
        (sub("context create|update|import") & _DOCKER_HOST) | (sub("buildx create") & _REMOTE),
        "builds and runs containers and images on another host",
        yes=(
            "docker context create x --docker host=tcp://x.test:2375",
            "docker context update default --docker=host=ssh://a@x.test",
            "docker context import x ctx.tar",
            "docker buildx create --driver remote tcp://x.test:1234",
        ),
        no=(
            "docker context create x --docker host=unix:///run/user/1000/docker.sock",
            "docker context use default",
            "docker buildx create --name x --use",
        ),
        effect="outside",
    ),
    rule(
        "persist.extension",
        "ask-once",
        "helm gh kubectl docker heroku",
        sub("plugin|plugins|extension|extensions|ext|krew install|update|add") | sub("plugins:install") | sub("plugins:link"),
        "adds code to a tool, which runs it from now on",
        yes=("helm plugin install ./x", "gh extension install .", "kubectl krew install x", "docker plugin install a/b"),
        no=("helm plugin list", "gh extension list", "kubectl krew search", "docker plugin ls"),
    ),
)
