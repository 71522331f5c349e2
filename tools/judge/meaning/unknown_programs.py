"""Unknown programs: they may change any file in their arguments."""

from __future__ import annotations

import posixpath

from tools.judge.meaning import tables
from tools.judge.meaning.value import HOLE, names
from tools.judge.meaning.walk import Walker

SPARE = names(
    ". : Rscript [ [[ ack actionlint ag alias ar as astyle autopep8 awk b2sum bandit base64 basename bash bash_unit bashate "
    "bat bats beautysh biome black bun c++ cargo cat cc cd chattr checkbashisms chgrp chmod chown chrpath cksum clang "
    "clang++ clang-format cloc cmp code codesign codespell column comm command cp crontab csc curl cursor cut dash declare "
    "deno diff dirname djlint dmd docker dos2unix dprint du echo egrep entr env envsubst eslint eval exec export false "
    "fgrep file find fish flake8 g++ gcc getfacl gfortran ghc git go gofmt goimports grep gzip hadolint hash head hexdump "
    "hg htmlhint hyperfine idea install isort javac jq jsonlint just kcov kill kotlinc ksh ld ldd less ll ln local ls "
    "lsattr ltrace lua make markdownlint mcs md5sum mdformat mkdir more mv mypy nice nim nl nm node nohup objdump ocamlc "
    "ocamlopt od open patchelf pbcopy perl perltidy php podman pre-commit prettier printf ps pyflakes pylint pyright pytest "
    "python python3 read readelf readlink realpath rev rg rm rsync rubocop ruby ruff rustc rustfmt scc scp sed set setfacl "
    "sh sha1sum sha256sum sha512sum shellcheck shellspec shfmt sleep sort source ssh standard standardrb stat strace "
    "strings strip stylelint subl sudo svn swiftc sync tac tail tar tcc tee test time timeout tokei touch tput tr trap true "
    "tsc tsx type typos uniq unix2dos unset unzip upx vulture wait watch wc wget which xargs xclip xdg-open xmllint xxd "
    "yamlfmt yamllint yapf zed zig zip zsh"
)
"""Programs that leave the files in their arguments unchanged or only reformat them, and programs whose effects other modules
find.
"""


def unknown_program(it: Walker, path: str) -> str:
    """Return the first unknown program with the file ``path`` as an argument, which may have changed it; "" if there is none."""
    last = path.rpartition("/")[2]
    for act in it.found.acts.values():
        name = act.name.rpartition("/")[2]
        if (
            not name
            or name in SPARE
            or name in tables.CHANGES.rows
            or name[0] == "@"
            or HOLE in name
            or name in it.context.wrappers
        ):
            continue
        for value in act.argv[1:]:
            if value.text.endswith(last) and value.text[:1] != "-":
                named = value.text if value.text[:1] == "/" else posixpath.join(act.cwds[0] if act.cwds else "", value.text)
                if posixpath.normpath(named) == path:
                    return name
    return ""
