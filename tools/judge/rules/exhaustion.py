"""Rules: commands that exhaust the machine."""

from __future__ import annotations

import re

from toolcrib.contract.regex import Regex
from tools.judge.meaning.value import Taint, Value
from tools.judge.table import ActView, Test, operand, opt, rule, text, word

_ENDLESS = r"(?:/dev/(?:zero|u?random|full))"
_HUGE = Regex(r"(\d+)\s*([KMGTPE]?)i?B?", re.IGNORECASE)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50, "E": 1 << 60}
_MANY_BYTES = 50 << 30


def _bytes(size: str) -> int:
    match = _HUGE.fullmatch(size.strip().lstrip("+"))
    return int(match[1][:18]) * _UNITS[match[2].upper()] if match else 0


def _fills(view: ActView) -> bool:
    """Return whether a redirect writes the output to a file that keeps it, unlike a device."""
    return any(target.op.startswith((">", "&>")) and not _is_sink(target.path.text) for target in view.act.redirects)


def _is_sink(path: str) -> bool:
    return re.match(r"/dev/(?!shm\b)", path) is not None


_WRITES = Test(_fills)


def _kept(target: Value) -> bool:
    return not _is_sink(target.text)


def _is_fed_endlessly(view: ActView) -> bool:
    stdin = view.act.stdin
    return (stdin is not None and bool(stdin.taint & Taint.ENDLESS)) or any(
        target.op == "<" and re.fullmatch(_ENDLESS, target.path.text) for target in view.act.redirects
    )


_ENDLESS_INPUT = Test(_is_fed_endlessly)


def _dd_fills(view: ActView) -> bool:
    given = dict(word.partition("=")[::2] for word in view.words)
    source, target = given.get("if", ""), given.get("of", "")
    if not re.fullmatch(_ENDLESS, source) or _is_sink(target) or (not target and not _fills(view)):
        return False
    if "count" not in given:
        return True
    size = _bytes(given.get("bs", "512")) or 512
    return _bytes(given["count"]) * size >= _MANY_BYTES


def _huge(names: str) -> Test:
    wanted = frozenset(names.split())
    return Test(lambda view: any(_bytes(one.text) >= _MANY_BYTES for one in view.values(wanted)))


RULES = (
    rule(
        "process.fork-bomb",
        "block",
        "@forkbomb",
        Test(lambda _view: True),
        "starts processes endlessly (a fork bomb)",
        yes=(":(){ :|:& };:", "x(){ x|x& };x", "boom() { boom | boom & }; boom"),
        no=("f(){ ls | sort; }; f", "echo ':(){ :|:& };:'"),
    ),
    rule(
        "resource.endless",
        "ask",
        "@endless",
        Test(lambda _view: True),
        "loops forever, and each round leaves a process or more data",
        yes=(
            "while true; do sleep 1000 & done",
            "while :; do mkdir d && cd d; done",
            "for ((;;)); do echo x >> /tmp/log; done",
            "while :; do cat big >> big2; done",
        ),
        no=(
            "while true; do date >> log; sleep 5; done",
            "while true; do curl -s localhost:8080 && break; done",
            "while true; do inotifywait -e modify src; make & done",
            'while read -r line; do echo "$line" >> out; done < in',
            "while true; do echo x >> log; [ -f stop ] && break; done",
            "for ((i=0; i<3; i++)); do echo $i >> out; done",
        ),
    ),
    rule(
        "resource.fill",
        "ask",
        "cat pv tac",
        operand(_ENDLESS) & _WRITES,
        "fills the disk",
        yes=("cat /dev/urandom > /tmp/junk", "pv /dev/zero > big"),
        no=("cat a > b", "cat /dev/zero > /dev/null", "head -c 16 /dev/urandom > key"),
    ),
    rule(
        "resource.fill",
        "ask",
        "tee gzip pigz bzip2 xz zstd lz4 base64 base32 tr cat pv openssl fold rev nl seq sponge",
        (_ENDLESS_INPUT & (_WRITES | Test(lambda view: view.name in ("tee", "sponge") and any(map(_kept, view.operands())))))
        | (Test(lambda view: view.name == "seq") & operand("inf|infinity", -1, re.IGNORECASE) & _WRITES),
        "fills the disk",
        yes=("yes | tee /tmp/a", "cat /dev/zero | gzip -1 > z.gz", "tr a b < /dev/zero > x", "seq inf > s"),
        no=(
            "yes | head -5 | tee a",
            "cat /dev/urandom | tr -dc a-z | head -c 16 > key",
            "tr -dc a-z < /dev/urandom | fold -w 32 | head -n1 > key",
            "yes | tee /dev/null",
            "seq 9 > s",
        ),
    ),
    rule(
        "resource.fill",
        "ask",
        "yes",
        _WRITES,
        "fills the disk",
        yes="yes > /tmp/x",
        no=("yes | head -5 > a", "yes > /dev/null"),
    ),
    rule(
        "resource.fill",
        "ask",
        "dd",
        Test(_dd_fills),
        "fills the disk",
        yes=("dd if=/dev/zero of=/tmp/fill", "dd if=/dev/urandom of=fill bs=1G count=500", "dd if=/dev/zero bs=1M > fill"),
        no=("dd if=/dev/zero of=disk.img bs=1M count=4", "dd if=/dev/zero of=/dev/null", "dd if=a of=b"),
    ),
    rule(
        "resource.fill",
        "ask",
        "tee cp",
        (Test(lambda view: view.name == "cp") & operand(_ENDLESS, at=0) & operand(r"(?!/dev/).*", at=-1)),
        "fills the disk",
        yes="cp /dev/zero big",
        no="cp a b",
    ),
    rule(
        "resource.fill",
        "ask",
        "fallocate truncate mkfile xfs_mkfile head qemu-img",
        _huge("-l --length -s --size -c --bytes")
        & (
            Test(lambda view: view.name not in ("head", "truncate", "qemu-img"))
            | (Test(lambda view: view.name == "head") & _WRITES)
        ),
        "fills the disk",
        yes=("fallocate -l 500G /tmp/x", "fallocate --length=2T big", "head -c 900G /dev/zero > big"),
        no=("fallocate -l 1G swap.img", "truncate -s 10M sparse.bin", "head -c 100 /dev/urandom > x"),
    ),
    rule(
        "resource.memory",
        "ask",
        "tail sort tac sponge",
        operand(_ENDLESS),
        "fills the memory",
        yes=("tail /dev/zero", "sort /dev/urandom"),
        no=("tail -5 a.log", "sort a.txt"),
    ),
    rule(
        "resource.memory",
        "ask",
        "stress stress-ng memtester stressapptest",
        ~opt("-n --dry-run --version --help")
        & (word(r"--?\w[\w-]*(?:=.*)?") | operand(r"\d+.*"))
        # a few busy workers for a limited time fill neither memory nor disk
        & ~Test(
            lambda view: re.fullmatch(r"(?:(?:-[ci]|--cpu|--io) [1-9]\d? |(?:-t|--timeout) \w+ )+", view.joined + " ") is not None
        )
        | (
            Test(lambda view: view.name in ("stress", "stress-ng"))
            & ~opt("-t --timeout -n --dry-run --version --help")
            & opt("-c -i --cpu --io")
        ),
        "loads the machine to its limit",
        yes=("stress --vm 8 --vm-bytes 4G", "stress-ng -c 0", "stress -c 64 -m 10", "memtester 60G"),
        no=("stress --version", "stress -n -c 4", "stress-ng -c 4 -t 60s"),
    ),
    rule(
        "resource.limits",
        "ask",
        "swapoff",
        opt("-a --all") | operand(".+"),
        "disables swap",
        yes="swapoff -a",
        no="swapon --show",
    ),
    rule(
        "resource.flood",
        "ask",
        "hping3 hping ab siege wrk slowloris t50 hping2 nping mdk3 mdk4 aireplay-ng ettercap arpspoof macof",
        text(r"--flood|--faster\b|--rand-source|--deauth|-0 \d")
        | Test(lambda view: view.name in ("slowloris", "t50", "macof", "arpspoof", "mdk3", "mdk4")),
        "floods a network or a host",
        yes=("hping3 --flood -S -p 80 198.51.100.20", "arpspoof -i eth0 -t 10.0.0.2 10.0.0.1"),
        no=("hping3 -c 1 -S x.test", "ab -n 10 http://localhost/", "wrk -d1s http://localhost:8080"),
    ),
)
