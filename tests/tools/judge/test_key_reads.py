"""Commands that read keys and credentials: their output, copy or archive would show them to the model."""

from __future__ import annotations

import pytest

import tools.file_tools  # noqa: F401 - it registers a tool
from toolcrib import ReadsFile
from tools.judge.calls import judge
from tools.judge.detect import examine
from tools.judge.layers import Layers, remaining
from tools.judge.meaning.state import NoFiles
from tools.judge.setting import Setting
from tools.registry import registry

HOMES = ["/home/dev", "/root", "/Users/dev", "/tmp/session/home", "/srv/people/dev"]
READS = [
    *("cat ~/.ssh/id_rsa", "base64 ~/.ssh/id_ed25519", "rev ~/.ssh/id_rsa", "xxd ~/.ssh/work", "od -c ~/.ssh/id_rsa"),
    *("tar cf - ~/.ssh", "tar -C ~ -cf a.tar .ssh", "zip -r a.zip ~/.aws", "cp ~/.netrc n", "cp -r ~/.aws n", "ln ~/.netrc n"),
    *("cat ~/.aws/credentials", "cat ~/.netrc", "cat ~/.config/gh/hosts.yml", "jq . ~/.docker/config.json", "nl ~/.kube/config"),
    *("cd ~/.ssh && cat id_rsa", "cd && cat .netrc", "cat ~/.ssh/*", "cat ~/.ss*/id_*", "cat $HOME/.netrc", "cat ~/.net''rc"),
    *("grep -r . ~/.aws", "sed -n p ~/.netrc", "awk 1 ~/.netrc", "dd if=$HOME/.netrc", "find ~/.ssh -type f -exec cat {} +"),
    *("while read -r x; do echo $x; done < ~/.netrc", "x=$(< ~/.netrc)", "mapfile a < ~/.netrc", "exec 3< ~/.netrc"),
    *("f=~/.netrc; rev $f", "bash -c 'cat ~/.netrc'", "xargs cat <<< ~/.netrc", "busybox cat ~/.netrc", "sudo cat ~/.netrc"),
    *("git diff --no-index /dev/null ~/.netrc", "curl file://$HOME/.netrc", "openssl base64 -in ~/.netrc", "base64 -i ~/.netrc"),
    *("perl -ne print ~/.netrc --help", "cat ~/.ssh/id_rsa | base64", "rsync ~/.netrc n", "./show ~/.pgpass", "vim -es ~/.netrc"),
    *("node -e \"console.log(fs.readFileSync('HOME/.netrc'))\"", "python3 -c \"print(open('HOME/.netrc').read())\""),
    *(
        "python3 -c \"import pathlib; print((pathlib.Path.home() / '.netrc').read_text())\"",
        "ruby -e \"puts File.read('HOME/.netrc')\"",
    ),
]
FREE = [
    *("ls -la ~/.ssh", "cat ~/.ssh/config", "cat ~/.ssh/id_rsa.pub", "cat ~/.ssh/known_hosts", "ssh-add ~/.ssh/id_rsa"),
    *("chmod 600 ~/.ssh/id_rsa", "ssh -i ~/.ssh/id_rsa host ls", "timeout 5 ssh -i ~/.ssh/id_rsa host ls", "stat ~/.netrc"),
    *("rsync -e 'ssh -i ~/.ssh/id_rsa' a b", "GIT_SSH_COMMAND='ssh -i ~/.ssh/id_rsa' git pull", "test -f ~/.netrc && echo yes"),
    *(
        "kubectl --kubeconfig ~/.kube/config get pods",
        "export KUBECONFIG=~/.kube/config",
        "cat ~/.aws/config",
        "cat ~/.gitconfig",
    ),
    *(
        "docker run -v ~/.aws:/root/.aws:ro web",
        "sha256sum ~/.netrc",
        "./deploy --key ~/.ssh/id_rsa",
        "ssh-keygen -lf ~/.ssh/id_rsa",
    ),
    *(
        "ansible-playbook --private-key ~/.ssh/id_rsa p.yml",
        "cat .env",
        "cat src/.netrc.md",
        "grep -n netrc README.md",
        "tar czf a.tgz .",
    ),
    *(
        "ls ~/.aws && aws s3 ls",
        "find ~/.ssh -name '*.pub'",
        "echo ~/.netrc",
        "cat notes/ssh/id_rsa.md",
        "rg aws/credentials src",
    ),
]


def keys(command: str, home: str) -> set[str]:
    command = command.replace("HOME/", f"{home}/") if "'HOME" in command else command
    found = examine(command, f"{home}/project", None, NoFiles(), Setting(home=home)).findings
    return {finding.key for finding in found}


@pytest.mark.parametrize("command", READS)
def test_reading_a_key_is_asked_about_wherever_the_home_is(command: str) -> None:
    assert [home for home in HOMES if "secret.read" not in keys(command, home)] == []


@pytest.mark.parametrize("command", FREE)
def test_using_a_key_and_reading_what_is_no_key_are_free(command: str) -> None:
    assert [home for home in HOMES if "secret.read" in keys(command, home)] == []


@pytest.mark.parametrize("home", HOMES)
def test_a_file_tool_asks_as_the_shell_does(home: str) -> None:
    entry = registry.get("read_file")
    assert entry is not None
    for name, wanted in ((".ssh/id_rsa", ["secret.read"]), (".ssh/id_rsa.pub", []), ("project/a.py", [])):
        assert [one.key for one in judge(entry, [ReadsFile(f"{home}/{name}")], setting=Setting(home=home)).findings] == wanted


def test_a_sandbox_that_masks_the_key_needs_no_question() -> None:
    found = examine("cat ~/.netrc", "/home/dev/p", None, NoFiles(), Setting(home="/home/dev")).findings
    masked = Layers(writable=("/home/dev/p",), masked=("/home/dev/.netrc",), covers=lambda path: True)
    assert remaining(found, masked) == []
    assert [one.key for one in remaining(found, Layers(writable=("/home/dev/p",), covers=lambda path: True))] == ["secret.read"]


@pytest.mark.parametrize("command", ["find ~ -name id_rsa | xargs cat", "./show-keys", "make keys"])
def test_a_key_that_no_word_names_is_not_seen(command: str) -> None:
    """A limit: only the sandbox masks it."""
    assert keys(command, "/home/dev") == set()
