"""Long shell scripts, generated from a seed: typical commands of agents combined at random, and commands that are slow to
analyse.
"""

from __future__ import annotations

import random

_WORDS = "build test lint docs api web core data main util report cache config server client schema model index".split()
_PLAIN = (
    "echo 'building {w}' >> {w}.log",
    "mkdir -p out/{w} && cp -r src/{w} out/{w}",
    "grep -rn '{w}' src | sort | uniq -c | sort -rn | head -{n}",
    "{v}=$(git rev-parse --short HEAD)",
    "{v}=${{{u}:-{w}}}; export {v}",
    "{v}=${{{u}%%.*}}/{w}",
    "{v}+=' {w}'",
    'python3 -c \'import json; print(json.load(open("{w}.json"))["{w}"])\'',
    "sed -i 's/{w}/{x}/g' src/{w}.py",
    "curl -fsS \"http://localhost:{n}/{w}?q=${v}\" | jq -r '.{w}[]'",
    "printf '%s\\n' \"${v}\" '{w}' | tee {w}.txt",
    'set -- {w} {x} "$@"; shift',
    'docker run --rm -v "$PWD:/work" node:20 npm test -- --grep {w}',
    "find src -name '*.{w}' -newer {x}.txt -print0 | xargs -0 -n{n} wc -l",
    "cd {w} && make {x} -j{n}; cd ..",
    "eval \"$(printf '%s=%s' {v} {w})\"",
    '{v}=({w} {x} {{a..d}}{{1..3}}); echo "${{{v}[@]:1}}"',
    'read -r {v} {u} <<< "{w} {x}"',
    "[[ ${v} == *{w}* ]] || exit {n}",
    "rm -f out/{w}/*.tmp",
    "cat > {w}.sh <<'END'\n#!/bin/sh\necho {x}\nEND\nchmod +x {w}.sh; ./{w}.sh",
    "cat > {w}.yaml <<END\nname: ${v}\nimage: $(echo {x})\nEND",
    "trap 'rm -f {w}.pid' EXIT",
    '{w} "${u}" --to {x} 2>&1 | tail -{n}',
    "tar czf {w}.tgz out/{w} && sha256sum {w}.tgz > {w}.sum",
    "git add -A; git commit -qm 'Change {w} and {x}'",
)
_BLOCKS = (
    "if {c}; then\n{body}\nelse\n{more}\nfi",
    "for {v} in {w} {x} src/*.py; do\n{body}\ndone",
    "while read -r {v}; do\n{body}\ndone < {w}.txt",
    "case ${v} in\n  {w}*) {one} ;;\n  {x}) {two} ;;\n  *) {one} ;;\nesac",
    '{w}() {{\n{body}\n}}\n{w} {x} "${v}"',
    "( set -e\n{body}\n) | tee -a {w}.log",
    "until {c}; do\n{body}\nsleep {n}\ndone",
)
_CONDITIONS = (
    "[ -f {w}.txt ]",
    "[[ -n ${v} && ${u} -gt {n} ]]",
    "grep -q {w} {x}.txt",
    "command -v {w} >/dev/null",
    "! {w} --check",
)


def long_script(seed: int) -> str:
    """Return the script of a seed: 20 to about 200 lines with nested blocks, always the same."""
    chance = random.Random(seed)
    lines: list[str] = ["#!/usr/bin/env bash", "set -euo pipefail"]
    want = int(20 * 10 ** chance.random())
    while sum(line.count("\n") + 1 for line in lines) < want:
        lines.append(_piece(chance, depth=2))
    return "\n".join(lines) + "\n"


def _piece(chance: random.Random, depth: int) -> str:
    if depth == 0 or chance.random() < 0.7:
        return _filled(chance, chance.choice(_PLAIN))
    parts = {
        "body": "\n".join(_piece(chance, depth - 1) for _ in range(chance.randint(1, 4))),
        "more": _piece(chance, depth - 1),
        "one": _filled(chance, _PLAIN[0]),
        "two": _filled(chance, _PLAIN[4]),
        "c": _filled(chance, chance.choice(_CONDITIONS)),
    }
    return _filled(chance, chance.choice(_BLOCKS), **parts)


def _filled(chance: random.Random, template: str, **parts: str) -> str:
    v, u = chance.sample(("name", "target", "mode", "list", "tag"), 2)
    return template.format(w=chance.choice(_WORDS), x=chance.choice(_WORDS), n=chance.randint(2, 99), v=v, u=u, **parts)
