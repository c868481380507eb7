# Which Python makes .venv; read by the scripts beside this one.
#
# The one that PYTHON names, or python3 as PATH has it. If that one cannot do it, or is root's own
# (in a home that no other user may enter, so that the ordinary users whom sandboxes and their tests
# run as could not start it), the system's, provided that it can.

system_python=/usr/bin/python3

choose_python() {
  if [ -z "${PYTHON:-}" ] && ! suits python3 && suits "$system_python"; then
    echo "$system_python"
  else
    echo "${PYTHON:-python3}"
  fi
}

suits() {
  is_new_enough "$1" && { has_venv "$1" || command -v uv >/dev/null; } && is_open_to_all "$1"
}

is_new_enough() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

has_venv() {
  "$1" -c 'import ensurepip, venv' 2>/dev/null
}

is_open_to_all() {
  [ "$(id -u)" != 0 ] || "$1" -c '
import pathlib, sys
prefix = pathlib.Path(sys.base_prefix).resolve()
sys.exit(not all(each.stat().st_mode & 1 for each in (prefix, *prefix.parents)))' 2>/dev/null
}
