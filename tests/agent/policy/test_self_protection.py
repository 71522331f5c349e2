"""A session's commands can't change settings, grants and trust, by any name; they can use other folders."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.api import Crib, assemble
from agent.config import config_path, state_dir
from agent.conversation.session import Session
from agent.policy.self_protection import BELOW, is_below, marks_of
from toolcrib import ExecRequest
from tools.dispatch.bridge import close_loop, run_async

COMMAND = Path(sys.executable).with_name("toolcrib")
Below = Callable[..., str]


@pytest.fixture
def crib(tmp_path: Path) -> Iterator[Crib]:
    config_path().parent.mkdir(parents=True, exist_ok=True)
    config_path().write_text("max_turns: 7\n")
    with assemble(project_dir=tmp_path) as made:
        yield made
    close_loop()


@pytest.fixture
def below(crib: Crib, root: Path) -> Iterator[Below]:
    """Run a line in a session's environment without the judge, because the test is about the program itself."""
    session: Session = crib.open_session(platform="api")
    environment = session.scope.environment
    path = f"env PYTHONPATH={shlex.quote(str(root))}"

    def run(line: str) -> str:
        line = re.sub("@o$", "until grep -q . o; do sleep 0.05; done; cat o", line)
        line = line.replace("@program", shlex.quote(str(COMMAND))).replace("@run", path)
        line = line.replace("@toolcrib", f"{path} {shlex.quote(str(COMMAND))}")
        line = line.replace("@python", f"{path} {shlex.quote(sys.executable)}")
        outcome = run_async(environment.execute(ExecRequest(line, timeout=60)))
        return (outcome.stdout.head + outcome.stderr.head).decode()

    yield run
    session.close_sync()


REFUSED = "is for a user only"


@pytest.mark.parametrize(
    "line",
    [
        "@toolcrib config set max_turns 3",
        "@toolcrib config set --config ~/.config/toolcrib/config.yaml max_turns 3",
        "ln -s ~/.config/toolcrib elsewhere; @toolcrib config set --config elsewhere/config.yaml max_turns 3",
        "ln -s ~/.config/toolcrib/config.yaml mine.yaml; @toolcrib config set --config mine.yaml max_turns 3",
        "env -u TOOLCRIB_BELOW @toolcrib config set max_turns 3",
        'env -i HOME="$HOME" @toolcrib config set max_turns 3',
        "setsid -w env -u TOOLCRIB_BELOW @toolcrib config set max_turns 3",
        "setsid -f @toolcrib config set max_turns 3 >o 2>&1; @o",
        'env -i HOME="$HOME" setsid -f @toolcrib config set max_turns 3 >o 2>&1; @o',
        'env -i HOME="$HOME" setsid -f @toolcrib config set --config other/c.yaml max_turns 3 >o 2>&1; @o',
        "tmux -S $PWD/t -f /dev/null new -d 'env -u TOOLCRIB_BELOW @toolcrib config set max_turns 3 >o 2>&1'; @o",
        "(@toolcrib config set max_turns 3)",
        "ln -s $(command -v @program) other; @run ./other config set max_turns 3",
        "cp @program other; @run ./other config set max_turns 3",
        '@python -c \'from agent.cli import main; main(["config", "set", "max_turns", "3"])\'',
        "@python -c 'from agent.config import set_value; set_value(None, \"max_turns\", 3)' 2>&1",
        "(sleep 1; echo) | script -qec '@toolcrib setup --provider manual --no-test' /dev/null",
        "echo '/title mine' | @toolcrib chat --provider manual",
        "echo /sessions | @toolcrib chat --provider manual",
        "echo '/resume 4711' | @toolcrib chat --provider manual",
        "echo '/approvals revoke 4711' | @toolcrib chat --provider manual",
        "(sleep 2; echo '!touch made'; sleep 1) | script -qec '@toolcrib chat --provider manual --screen-reader' /dev/null",
        "@toolcrib chat --provider manual --mode default </dev/null",
        "echo '/mode default' | @toolcrib chat --provider manual",
        "XDG_STATE_HOME=$PWD/state @toolcrib doctor --fix --yes",
        "XDG_STATE_HOME=$PWD/state @toolcrib sessions prune --older-than 1d --yes",
    ],
)
def test_what_a_session_goes_by_is_not_changed_below_it(below: Below, line: str) -> None:
    assert REFUSED in below(line)
    assert config_path().read_text() == "max_turns: 7\n"


SUBCOMMANDS = (
    "mcp add files -- true",
    "mcp import",
    "mcp lock",
    "mcp test files",
    "mcp enable files",
    "mcp login files",
    "mcp logout files",
    "config unset max_turns",
    "setup --provider manual --no-test",
    "setup --dry-run --yes",
    "approvals revoke 4711",
    "approvals deny 4711",
    "approvals answer 4711",
    "undo --yes",
    "sessions prune --older-than 1d --yes",
    "sessions",
    "sessions search port",
    "sessions show 4711",
    "sessions export 4711",
    "sessions export 4711 -o notes.md --force",
    "sessions resume 4711",
    "sessions fork 4711",
    "sessions rename 4711 mine",
    "sessions tag 4711 +mine -yours",
    "sessions import talk.json",
    "sessions import --from codex",
    "sessions delete 4711 --yes",
    "trace 4711",
    "toolsets create more --tools terminal",
    "plugins new mine",
    "run hello --model m --base-url http://127.0.0.1:9/v1 --mode default",
    "run hello --allow '{command: rm, operands: x, example: rm x}'",
    "run hello --allow-file /tmp/rules.yaml",
    "env prune --yes",
    "doctor --repair-store --yes",
    "doctor --fix",
    "doctor --bundle b.tar.gz",
)
"""What a subcommand does for a user only. One process runs them all: the starts are those of the lines above."""
IN_TURN = "\n".join((
    "import shlex, sys",
    "from agent.cli import main",
    "for line in sys.argv[1:]:",
    "    print(f'> {line}', flush=True)",
    "    print(f'exit code {main(shlex.split(line))}', flush=True)",
))  # fmt: skip


def test_each_subcommand_that_is_for_a_user_is_refused_below_it(below: Below) -> None:
    said = below(f"@python -c {shlex.quote(IN_TURN)} {shlex.join(SUBCOMMANDS)} 2>&1")
    parts = _parts(said)
    assert list(parts) == [*SUBCOMMANDS]
    assert [line for line, part in parts.items() if REFUSED not in part or "exit code 0" in part] == []
    assert config_path().read_text() == "max_turns: 7\n"


def _parts(said: str) -> dict[str, str]:
    """Return the output of each line."""
    found = re.split(r"^> (.*)\n", said, flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


def test_the_program_in_the_place_of_the_sessions_shell_is_below_it_too(below: Below) -> None:
    below('exec env -i HOME="$HOME" @toolcrib config set max_turns 3')
    assert config_path().read_text() == "max_turns: 7\n"


@pytest.mark.parametrize(
    "line",
    [
        "@toolcrib config set --config other/config.yaml max_turns 3 && cat other/config.yaml",
        "HOME=$PWD/home @toolcrib config set max_turns 3 && cat home/.config/toolcrib/config.yaml",
        "XDG_CONFIG_HOME=$PWD/c @toolcrib config set max_turns 3 && cat c/toolcrib/config.yaml",
    ],
)
def test_other_folders_are_free(below: Below, line: str) -> None:
    said = below(line)
    assert "max_turns: 3" in said
    assert config_path().read_text() == "max_turns: 7\n"


def test_looking_is_free(below: Below) -> None:
    assert "max_turns: 7" in below("@toolcrib config show")
    assert REFUSED not in below("@toolcrib approvals; @toolcrib undo --list; @toolcrib doctor")


def test_who_hosts_the_session_is_not_below_it(crib: Crib) -> None:
    session = crib.open_session(platform="api")
    assert not is_below([config_path().parent, state_dir()])
    session.close_sync()


def test_a_session_below_a_session_is_below_both(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(BELOW, "1:2")
    about = tmp_path.stat()
    assert marks_of([tmp_path / "not" / "there"]) == f"1:2 {about.st_dev}:{about.st_ino}"
    monkeypatch.setenv(BELOW, marks_of([tmp_path]))
    assert is_below([tmp_path])
    assert not is_below([config_path().parent])


def test_below_an_unmarked_session_nothing_is_changed(below: Below, tmp_path: Path) -> None:
    """A program that runs tools without a Crib sets no mark: the configuration for its commands is unknown."""
    code = """if True:
        import asyncio, sys
        from toolcrib import ExecRequest
        from tools.environments.local.environment import LocalEnvironment
        environment = LocalEnvironment()
        said = asyncio.run(environment.execute(ExecRequest(sys.argv[1], timeout=60)))
        print((said.stdout.head + said.stderr.head).decode())
        asyncio.run(environment.close())
    """
    (tmp_path / "host.py").write_text(code)
    inner = "@toolcrib config set --config other.yaml max_turns 3"
    assert REFUSED in below(f"@python host.py '{inner}'")
    assert "max_turns: 3" in below(inner)
