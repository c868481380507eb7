#!/usr/bin/env bash
# Makes .venv from the lock files: `environment.sh run` to use Potluck, `dev` to work on it.
# `lock` writes the lock files anew. Needs nothing but Python 3.11 or later with venv.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/python.sh

venv=.venv
uv_version=0.13.7
# The system's certificates, so that a company's own authority is trusted as it is elsewhere.
export UV_SYSTEM_CERTS=1 UV_NO_CONFIG=1 UV_NO_PROGRESS=1

fail() {
  printf 'potluck: %s\n' "$*" >&2
  exit 1
}

check_python() {
  command -v "$python" >/dev/null || fail "no $python here. Install Python 3.11 or later (Debian/Ubuntu: apt install python3 python3-venv; macOS: brew install python), or name one: make PYTHON=/path/to/python3"
  is_new_enough "$python" ||
    fail "$("$python" --version) is too old; Potluck needs 3.11 or later. Name a newer one: make PYTHON=/path/to/python3"
}

make_venv() {
  [ -x "$venv/bin/python" ] && "$venv/bin/python" -c '' 2>/dev/null && return
  rm -rf "$venv"
  python=$(choose_python)
  check_python
  if has_venv "$python"; then
    "$python" -m venv "$venv"
  elif command -v uv >/dev/null; then
    uv venv --quiet --python "$(command -v "$python")" "$venv"
  else
    fail "$("$python" --version) comes without venv. Install it (Debian/Ubuntu: apt install python3-venv), then try again."
  fi
}

# uv is one of our own dependencies; the first one is fetched by pip, or found on PATH.
find_uv() {
  if [ -x "$venv/bin/uv" ]; then
    uv=$venv/bin/uv
  elif [ -x "$venv/bin/pip" ]; then
    echo "Setting up .venv (the first time takes a minute) …"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "uv==$uv_version" ||
      fail "pip could not install uv; is there a network connection to the package index?"
    uv=$venv/bin/uv
  else
    uv=$(command -v uv) || fail "neither pip nor uv is here. Remove .venv and install python3-venv."
  fi
}

install() {
  "$uv" pip install --quiet --python "$venv/bin/python" --compile-bytecode --require-hashes -r "locks/$1.txt"
  "$uv" pip install --quiet --python "$venv/bin/python" --no-deps --editable .
  [ "$1" = run ] || { install_apart generator && install_apart release; }
  touch "$venv/.$1"
}

# Tools in an environment of their own: a generator of API clients, which wants an older typer than
# we do, and what makes a release.
install_apart() {
  local own=$venv/$1
  [ -x "$own/bin/python" ] || "$uv" venv --quiet --python "$venv/bin/python" "$own"
  "$uv" pip install --quiet --python "$own/bin/python" --require-hashes -r "locks/$1.txt"
}

lock() {
  "$uv" pip compile --quiet --universal --generate-hashes --upgrade --no-header --python-version 3.11 \
    --extra server --extra opencl --extra notify pyproject.toml -o locks/run.txt
  "$uv" pip compile --quiet --universal --generate-hashes --upgrade --no-header --python-version 3.11 \
    --extra server --extra opencl --extra notify --extra sentry --extra tracing --extra chain --group dev -c locks/run.txt pyproject.toml -o locks/dev.txt
  "$uv" pip compile --quiet --universal --generate-hashes --upgrade --no-header --python-version 3.11 \
    --group generator -o locks/generator.txt
  "$uv" pip compile --quiet --universal --generate-hashes --upgrade --no-header --python-version 3.11 \
    --group release -o locks/release.txt
  "$uv" pip compile --quiet --universal --generate-hashes --upgrade --no-header --python-version 3.11 \
    --group web -o locks/web.txt
}

make_venv
find_uv
case ${1:-} in
  run | dev) install "$1" ;;
  lock) lock ;;
  *) fail "usage: environment.sh run|dev|lock" ;;
esac
