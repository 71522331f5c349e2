# bash sources this before each command (BASH_ENV): at exit it says, on a descriptor of its own, where the command ended.
trap "{ builtin printf '%s\0' \"\${PWD-}\"; } 2>/dev/null >&$TOOLCRIB_CWD_FD" EXIT
unset BASH_ENV TOOLCRIB_CWD_FD
