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
end_all() {
  local stat fields signal=$1
  for stat in /proc/[0-9]*/stat; do
    { read -r fields <"$stat"; } 2>/dev/null || continue
    set -- ${fields##*) }
    [[ ${sessions[$4]-} ]] || continue
    stat=${stat#/proc/}
    kill "-$signal" "${stat%/stat}" 2>/dev/null
    kill -CONT "${stat%/stat}" 2>/dev/null
  done
}
if ((${#sessions[@]})); then
  end_all TERM
  sleep 0.5
  end_all KILL
fi
for folder in "${!folders[@]}"; do
  case $folder in */toolcrib-*) rm -rf -- "$folder" ;; esac
done
