"""Behaviour of bash that a reader of its manual may not expect. The words are the ones that bash executed."""

from __future__ import annotations

import re

import pytest

from tools.judge.meaning import HOLE, NoFiles, ShellNow, interpret

NOW = ShellNow(cwd="/home/dev/p", home="/home/dev", user="dev")
BLUR = "; ".join(f"[[ -n ${name} ]] && {name}=1" for name in "abcde")
"""More alternatives than the interpreter follows separately."""


def listed(text: str) -> list[str]:
    """Return each argv as one line."""
    return [" ".join(value.text for value in act.argv) for act in interpret(text, NOW, NoFiles()).acts if act.argv]


def fits(line: str, executed: str) -> bool:
    """Return whether ``executed`` matches the line; an unknown part stands for any text, and an unknown word may be missing."""
    words = ["(?: .*)?" if word == HOLE else " " + ".*".join(map(re.escape, word.split(HOLE))) for word in line.split(" ")]
    return re.fullmatch("".join(words), f" {executed}", re.DOTALL) is not None


@pytest.mark.parametrize(
    ("text", "executed"),
    [
        # attributes (number, upper case, lower case) apply to each kind of assignment
        ("declare -u v=; rm ${v:=a}", "rm A"),
        ("declare -i v; rm ${v:=1+1}", "rm 2"),
        ("declare -l p; p=(RM -RF D); ${p[@]}", "rm -rf d"),
        ("declare -l p; p=(A); p+=(RM); p[2]=D; ${p[@]:1}", "rm d"),
        ("declare -ai p; p=(1+1); p[0]+=1; rm ${p[0]}", "rm 3"),
        ("declare -l p; read -ra p <<< 'RM D'; ${p[@]}", "rm d"),
        ("declare -l p; mapfile -t p <<< RM; $p d", "rm d"),
        ("declare -l REPLY; read <<< RM; $REPLY d", "rm d"),
        (f"x && declare -l v; {BLUR}; v=RM; $v d", "RM d"),
        (f"x && declare -l v; {BLUR}; v=RM; $v d", "rm d"),
        ("declare -n n=p; n=(rm d); ${p[@]}", "rm d"),
        ("p=(a b); : ${p[2]:=c}; rm ${p[@]}", "rm a b c"),
        ('declare -A m=([x]=d [z]=rm); "${m[@]}"', "rm d"),
        ('declare -A m=([a]=1 [b]=2); m[a]=d; rm "${!m[@]}"', "rm b a"),
        ("declare -A m=([$(x)]=d [z]=rm); ${m[@]}", "rm d"),
        # a variable that an expansion sets stays set, even if the assignment around it does not
        ("v=0 w=0; v=$((v=1)) x; rm $v", "rm 1"),
        ("v=0 w=0; v=2 w=$((v=1)) x; rm $v $w", "rm 1 0"),
        # readonly variables keep their value
        ("p=rm; readonly p; p=(echo)\n$p d", "rm d"),
        ("p=rm; readonly p; declare p=echo; $p d", "rm d"),
        ("p=rm; readonly p; mapfile -t p <<< echo; $p d", "rm d"),
        ("p=rm; readonly p; read -a p <<< echo; $p d", "rm d"),
        (f"p=rm; x && readonly p; {BLUR}; p=echo\n$p d", "rm d"),
        ("readonly r=1; (( r=4 )) && true || rm d", "rm d"),
        ("readonly r; read r <<< a || rm d", "rm d"),
        # a line ends at an expansion that fails
        ("v=rm; for i in ${!w}; do v=echo; done; v=echo\n$v d", "rm d"),
        ("v=rm; case ${!w} in *) v=echo;; esac; v=echo\n$v d", "rm d"),
        ("v=rm; case x in ${!w}) ;; *) v=echo;; esac; v=echo\n$v d", "rm d"),
        ("v=rm; [[ -n ${!w} ]]; v=echo\n$v d", "rm d"),
        ("v=rm; (( ${!w} )); v=echo\n$v d", "rm d"),
        ("v=rm; for (( i=${!w}; 0; )); do :; done; v=echo\n$v d", "rm d"),
        ("v=rm; unset w; x ${!w}; v=echo\n$v d", "rm d"),
        ("v=rm; { :; } > ${!w}; v=echo\n$v d", "rm d"),
        ("declare -i i; v=rm; read i <<< 'a b'; v=echo\n$v d", "rm d"),
        ("declare -i i; v=rm; for i in 'a b'; do :; done; v=echo\n$v d", "rm d"),
        ("declare -i i; v=rm; printf -v i 'a b'; v=echo\n$v d", "rm d"),
        ("v=rm; x ${1:=a}; v=echo\n$v d", "rm d"),
        ("v=rm; x ${!w} $((v=3))\n$v d", "rm d"),  # the rest of the command is not expanded
        ("trap '$v d' EXIT; v=rm; x ${!w} ${v:=echo}", "rm d"),
        ("v=rm; x $((${1:-$(x)}*2)); v=echo\n$v d", "rm d"),
        ("n=$(x); x=$(echo $(($n*2))) && v=echo || v=rm; $v d", "rm d"),
        ("declare -i i; x | while read i; do :; done; [ $? = 0 ] || rm d", "rm d"),
        # but a command that is a failed calculation does not end the line
        ("v=rm; (( 1/0 )); v=echo\n$v d", "echo d"),
        # lists with an unknown part
        ("p=($(x) a b); unset 'p[0]'; rm ${p[@]}", "rm y a b"),
        ('p=(a b); unset "p[$(x)]"; rm ${p[@]}', "rm b"),
        ("p=(a $(x) b); p[1]=c; rm ${p[@]}", "rm a c d"),
        ('mapfile -t p <<< "$(x)"; p[1]=c; rm ${p[@]}', "rm a c d"),
        (f"p=(a b); x && p=(c); {BLUR}; rm ${{p[@]}}", "rm c"),
        (f"p=(c); x && p=(a b); {BLUR}; rm ${{p[@]}}", "rm c"),
        (f"p=(${{v:+a}}`x` b); {BLUR}; rm ${{p[1]}} c", "rm  c"),
        ("v=echo; for i in $(x) a; do $v d; v=rm; done", "echo d"),
        ("f() { for i in ${v:-a}; do rm $i; done; }; v=$(x); f", "rm b"),
        ("declare v=$(x){a,b}; rm $v", "rm d"),
        ("select v in a b; do rm $v; break; done", "rm b"),
        ("select v in a b; do $w $v; w=rm; done", "rm a"),
        # functions and aliases that may be defined
        (f"x && rm() {{ echo; }}; {BLUR}; rm d", "rm d"),
        (f"x && rm() {{ echo a; }}; {BLUR}; rm d", "echo a"),
        (f"shopt -s expand_aliases\nx && alias rm=echo\n{BLUR}\nrm d", "rm d"),
        (f"shopt -s expand_aliases\nx && alias a='echo ' || alias a=rm\n{BLUR}\na d", "rm d"),
        (f"x && hash -p /bin/echo rm; {BLUR}; rm d", "rm d"),
        # an alias applies to text that is read later: not to the rest of the line, of the block, or of an earlier function
        ("shopt -s expand_aliases\n{ alias rm=echo\n}; rm d", "rm d"),
        ("shopt -s expand_aliases\nif true; then\nalias rm=echo\nrm d\nfi", "rm d"),
        ("shopt -s expand_aliases\nf() { rm d; }\nalias rm=echo\nf", "rm d"),
        ("shopt -s expand_aliases\nf() { alias rm=echo; }\nf; rm d", "rm d"),
        ("shopt -s expand_aliases\nalias rm=echo; \\\nrm d", "rm d"),
        ("shopt -s expand_aliases\nalias a='rm d'; cat <<X\nX\na", "rm d"),
        ("shopt -s expand_aliases\nalias a='rm '\na $((1+1))", "rm 2"),
        ("f() { true | while read v; do :; done; true | { f() { rm d; }; f; }; }; f", "rm d"),
        # the status of the last command
        ("false; for i in a; do [ $? = 0 ] || rm d; done", "rm d"),
        ("for i in a$(false); do [ $? = 0 ] || rm d; done", "rm d"),
        ("return || rm d", "rm d"),
        ("printf -v x || rm d", "rm d"),
        # blanks at the end of a line are not read, and the rest of this line may be blank
        ('read v <<< "d $(x)"; rm "$v"', "rm d"),
        ('IFS=: read v w <<< "c:d:$(x)"; rm "$w"', "rm d"),
        # with "$@" in it, the subject of case is split and joined again
        ('v="0  n "; case "$@"$v in "0 n") rm d;; *) echo;; esac', "rm d"),
        ('v="0  n "; p=(); case "${p[@]}"$v in "0 n") rm d;; *) echo;; esac', "rm d"),
        ('v="0 "; [[ "$@"$v = 0 ]] && rm d', "rm d"),
        # a variable that may be set is either set or unset throughout a command
        ("v=$(x); rm ${v:-a} ${v:+b}", "rm v b"),
        ("v=$(x); rm ${v:-a} ${v:+b}", "rm a"),
        # quoting and the tilde
        ("v=$'a\\nb'; rm ${v@Q}", "rm $'a\\nb'"),
        ('v="it\'s"; rm ${v@Q}', "rm 'it'\\''s'"),
        ('eval $(echo rm ~"$w")', "rm /home/dev"),
        ("case x in $(x)|${w:=x}) rm $w;; esac", "rm x"),
        ("case x in $(x)|${w:=x}) rm $w;; esac", "rm "),
    ],
)
def test_what_bash_executes_is_listed(text: str, executed: str) -> None:
    assert any(fits(line, executed) for line in listed(text)), listed(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("for i in a b; do rm $i; done", "rm a"),
        ("case x in a|x) rm d;; *) rm e;; esac", "rm d"),
        ("declare -i n=1+1; rm $n", "rm 2"),
        ("rm() { echo $1; }; rm d", "echo d"),
        ("shopt -s expand_aliases\nalias rm=echo\nrm d", "echo d"),
    ],
)
def test_what_is_certain_is_listed_alone(text: str, line: str) -> None:
    assert next(one for one in listed(text) if one.startswith(("rm", "echo"))) == line
    assert HOLE not in "".join(listed(text))
