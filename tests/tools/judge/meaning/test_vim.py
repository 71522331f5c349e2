"""Commands that vim reads from its input, and input that it passes to programs."""

from __future__ import annotations

import pytest

from tools.judge.meaning import NoFiles, ShellNow, interpret


def argvs(text: str) -> list[str]:
    return [" ".join(value.text for value in act.argv) for act in interpret(text, ShellNow(cwd="/p"), NoFiles()).acts]


@pytest.mark.parametrize(
    ("text", "argv"),
    [
        ('printf \'call delete("/etc", "rf")\\nq\\n\' > k; vim -es < k', "rm -r /etc"),
        ("echo '!rm -rf /etc' | ex -s x", "rm -rf /etc"),
        ("echo ':!rm -rf /etc' | vim x", "rm -rf /etc"),
        ("echo '!rm -rf /etc' | vim -es -c 'set nu' x", "rm -rf /etc"),
        ("echo 'rm -rf /etc' > n; vim -es -c '%!sh' n", "rm -rf /etc"),
        ("echo 'rm -rf /etc' > n; vim -es -c 'w !sh' -c q n", "rm -rf /etc"),
    ],
)
def test_input_and_edited_text_are_run(text: str, argv: str) -> None:
    assert argv in argvs(text)


@pytest.mark.parametrize(
    "text",
    [
        "echo '!rm -rf /etc' | vim -",
        "echo '!rm -rf /etc' | vim -es -c '%s/a/b/' -c wq x",
        "echo 'rm -rf /etc' > n; vim -es -c '%!sort' -c x n",
        "echo 'rm -rf /etc' > n; vim -es -c '!sh' -c x n",
    ],
)
def test_text_that_is_only_edited_is_not(text: str) -> None:
    assert "rm -rf /etc" not in argvs(text)
