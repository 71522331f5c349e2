"""toolcrib's own code and the Python that runs it: any command may read them, but only the user may change them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import tools.file_tools  # noqa: F401 - registers write_file
from toolcrib import DeletesFile, Effect, ShellState, WritesFile
from tools.judge.calls import judge
from tools.judge.detect import examine
from tools.judge.meaning.state import Seen
from tools.judge.own_code import Installed
from tools.judge.setting import Setting
from tools.registry import registry

HOME = "/home/dev"
PROJECT = f"{HOME}/project"
VENV = "/srv/tool/venv"
SITE = f"{VENV}/lib/python3.12/site-packages"
STDLIB = "/srv/python/lib/python3.12"
UV = f"{HOME}/.local/share/uv/tools"
PATH = f"{VENV}/bin:/usr/bin:/bin"
RELEASED = Installed((SITE, STDLIB, f"{VENV}/pyvenv.cfg", f"{VENV}/bin", UV), programs=(f"{VENV}/bin",), path=PATH)
CHECKOUT = Installed((f"{PROJECT}/agent", f"{PROJECT}/model_tools.py", SITE), checkout=PROJECT, programs=(f"{VENV}/bin",))


class Files:
    """A snapshot: ``there`` are the files that exist, ``links`` the targets of links."""

    def __init__(self, *there: str, links: Mapping[str, str] | None = None) -> None:
        self._there, self._links = there, links or {}

    def inspect_path(self, path: str) -> Seen:
        return Seen("binary") if path in self._there else Seen("missing")

    def real(self, path: str) -> str:
        for link, target in self._links.items():
            if path == link or path.startswith(f"{link}/"):
                return target + path[len(link) :]
        return path


def found(
    command: str, installed: Installed = RELEASED, files: Files | None = None, *, cwd: str = PROJECT, path: str = ""
) -> dict[str, str]:
    """Return the findings about our own code: key -> level."""
    shell = ShellState(variables={"PATH": path}) if path else None
    setting = Setting(home=HOME, installed=installed)
    findings = examine(command, cwd, shell, files or Files(), setting).findings
    return {one.key: one.level for one in findings if one.key in ("self.installed", "self.packages", "self.checkout")}


@pytest.mark.parametrize(
    "command",
    [
        f"echo 'import x' > {SITE}/x.pth",
        f"tee {SITE}/sitecustomize.py < x",
        f"cp evil.py {SITE}/agent/api.py",
        f"cp evil.py {SITE}/agen?/run.py",
        f"cd {SITE}/tools && sed -i s/deny/allow/ judge/assess.py",
        f"mv evil.py {STDLIB}/re.py",
        f"ln -sf /tmp/x {SITE}/tools/judge",
        f"rm {SITE}/tools/judge/rules/self.py",
        f"rm -rf {VENV}",
        f"mv {VENV} /tmp/x",
        f"chmod -R a+w {VENV}",
        f"ln -sf /tmp/python {VENV}/bin/python",
        f"git clone https://x.test/y.git z; cp -r z {UV}/toolcrib",
        f"python3 -c \"open('{SITE}/x.pth', 'w').write('import x')\"",
        f"python3 -c \"import shutil; shutil.copy('x', '{SITE}/re.py')\"",
        f"perl -e 'open(F, \">{SITE}/x.pth\")'",
        f"bash -c 'echo x >> {SITE}/toolcrib/__init__.py'",
        f"ln -s {SITE} s; echo x > s/x.pth",
        "echo x > known/x.pth",
    ],
)
def test_no_command_changes_it(command: str) -> None:
    files = Files(links={f"{PROJECT}/known": SITE})
    assert found(command, files=files).get("self.installed") == "block"


@pytest.mark.parametrize("effect", [WritesFile(f"{SITE}/x.pth"), DeletesFile(f"{SITE}/tools/judge/rules/self.py")])
def test_no_file_tool_changes_it(effect: Effect) -> None:
    entry = registry.get("write_file")
    assert entry is not None
    judged = judge(entry, [effect], setting=Setting(home=HOME, installed=RELEASED))
    assert [(one.key, one.level) for one in judged.findings] == [("self.installed", "block")]


def test_what_is_unpacked_above_it_is_asked_about() -> None:
    assert found(f"tar -xf x.tar -C {VENV}/lib") == {"self.installed": "ask-once"}
    assert found("unzip x.zip -d ~/.local/share") == {"self.installed": "ask-once"}


@pytest.mark.parametrize(
    "command",
    [
        f"cat {SITE}/tools/judge/assess.py",
        f"grep -rn def {SITE}/agent",
        f"cp {SITE}/requests/api.py .",
        f"ls {VENV}/bin",
        f"{VENV}/bin/python -m pytest",
        "echo x > .venv/lib/python3.12/site-packages/x.pth",
        "rm -rf .venv",
        "tar -xf x.tar",
        "chmod 755 /srv/tool",
        f"docker run --rm -v {PROJECT}:/w img sh -c 'echo x > {SITE}/x'",
    ],
)
def test_reading_it_and_changing_others_is_free(command: str) -> None:
    assert found(command) == {}


# packages


@pytest.mark.parametrize(
    "command",
    [
        f"{VENV}/bin/pip install requests",
        f"{VENV}/bin/python -m pip install requests",
        f"{VENV}/bin/python3.12 -I -m pip uninstall -y requests",
        f"{VENV}/bin/python -m ensurepip",
        "pip install requests",
        "python -m pip install requests",
        f"PATH={VENV}/bin:$PATH pip3 install requests",
        f"cd {VENV} && bin/pip install requests",
        f"pip --python {VENV}/bin/python install requests",
        f"uv pip install --python {VENV} requests",
        f"uv pip install -p {VENV}/bin/python requests",
        f"VIRTUAL_ENV={VENV} uv pip install requests",
    ],
)
def test_other_packages_for_that_python_are_asked_about(command: str) -> None:
    assert found(command) == {"self.packages": "ask"}


@pytest.mark.parametrize(
    "command",
    [
        ".venv/bin/pip install requests",
        ".venv/bin/python -m pip install -e .",
        "/usr/bin/python3 -m pip install requests",
        "uv pip install requests",
        "uv pip install -p .venv requests",
        "uv add requests",
        "pip list",
        f"{VENV}/bin/pip show toolcrib",
        f"{VENV}/bin/python -m pip download requests",
    ],
)
def test_a_projects_own_environment_is_free(command: str) -> None:
    assert found(command) == {}


def test_an_activated_environment_comes_first() -> None:
    activated, files = f"{PROJECT}/.venv/bin:{PATH}", Files(f"{PROJECT}/.venv/bin/pip", f"{PROJECT}/.venv/bin/python")
    assert found("pip install requests", files=files, path=activated) == {}
    assert found("python -m pip install requests", files=files, path=activated) == {}
    assert found("PATH=$PWD/.venv/bin:$PATH pip install requests", files=files, path=PATH) == {}
    assert found("pip install requests", path=activated) == {"self.packages": "ask"}  # the environment has no pip


# toolcrib's own terminal


@pytest.mark.parametrize("target", ["work", "wor", "w*", "work:1", "=work", "editor"])
def test_nobody_types_into_the_session_that_it_runs_in(target: str) -> None:
    inside = Installed(sessions=("work", "editor"))
    command = f"tmux send-keys -t '{target}' 'make test' Enter"
    findings = examine(command, PROJECT, None, Files(), Setting(home=HOME, installed=inside)).findings
    assert [(one.key, one.level) for one in findings] == [("shell.attach", "ask-once")]


@pytest.mark.parametrize("sessions", [(), ("work", "editor")])
def test_lines_for_another_named_session_are_free(sessions: tuple[str, ...]) -> None:
    setting = Setting(home=HOME, installed=Installed(sessions=sessions))
    assert examine("tmux send-keys -t dev 'make test' Enter", PROJECT, None, Files(), setting).findings == []
    assert examine("tmux send-keys -t dev 'rm -rf ~' Enter", PROJECT, None, Files(), setting).findings != []


def test_where_its_session_is_unknown_every_line_is_asked_about() -> None:
    setting = Setting(home=HOME, installed=Installed(sessions=("*",)))
    assert examine("tmux send-keys -t dev ls Enter", PROJECT, None, Files(), setting).findings != []


# a checkout


def test_a_checkout_that_runs_is_closed_unless_a_person_chose_to_work_on_it() -> None:
    command = "sed -i s/a/b/ agent/api.py"
    assert found(command, CHECKOUT) == {"self.installed": "block"}
    findings = examine(command, PROJECT, None, Files(), Setting(home=HOME, installed=CHECKOUT)).findings
    assert all("--develop-toolcrib" in one.why for one in findings)
    assert found("echo x > notes.md; touch test_new.py; rm -rf build", CHECKOUT) == {}
    assert found(command, Installed((SITE,))) == {}


@pytest.mark.parametrize(
    "command", ["git checkout main", "git pull", "git stash pop", "git -C . apply x.diff", "patch -p1 < x.diff"]
)
def test_what_changes_a_checkout_without_naming_files_is_asked_about(command: str) -> None:
    assert found(command, CHECKOUT) == {"self.checkout": "ask-once"}
    assert found(command, CHECKOUT, cwd=f"{PROJECT}/docs") == {"self.checkout": "ask-once"}
    assert found(command, CHECKOUT, cwd=f"{HOME}/other") == {}
    assert found(command) == {}


@pytest.mark.parametrize("command", ["git status", "git commit -am x", "git log -p", "git add agent/api.py", "git stash list"])
def test_looking_at_a_checkout_is_free(command: str) -> None:
    assert found(command, CHECKOUT) == {}
