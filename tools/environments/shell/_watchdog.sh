# Reads what is to be ended when whoever writes here is gone: +SESSION -SESSION, /FOLDER (added) 0FOLDER (removed).
trap '' INT TERM HUP
declare -A sessions folders
while IFS= read -r line; do
  case $line in
    +*) sessions[${line:1}]=1 ;;
    -*) unset "sessions[${line:1}]" ;;
    /*) folders[${line:1}]=1 ;;
    0*) unset "folders[${line:1}]" ;;
  esac
done
# Sends a signal to all that lives in these sessions. False where nothing does.
end_all() {
  local stat line found=() signal=$1
  for stat in /proc/[0-9]*/stat; do
    line=
    { IFS= read -rd '' line <"$stat"; } 2>/dev/null # all of it: a name may hold a line's end
    set -- "${line%% *}" ${line##*) }
    [[ $5 && ${sessions[$5]-} && $2 != [ZX] ]] && found+=("$1")
  done
  ((${#found[@]})) || return
  # Held still first: where one ended before the shell that waits for it, that would go on to its next command.
  for line in STOP "$signal" CONT; do kill "-$line" "${found[@]}"; done 2>/dev/null
  return 0
}
if ((${#sessions[@]})); then
  end_all TERM && sleep 0.5
  # What was forked while we looked is seen the next time.
  for _ in {1..50}; do end_all KILL && sleep 0.02 || break; done
fi
for folder in "${!folders[@]}"; do
  case $folder in */toolcrib-*) rm -rf -- "$folder" ;; esac
done
