#!/usr/bin/env bash
# Installs the programs that the tests use and pip cannot bring. Does nothing when they are there.
#
# On Debian and Ubuntu by apt, as root or with a sudo that asks for no password; elsewhere it says
# what is missing. The tests start their own PostgreSQL and Redis, so no service is wanted: while
# apt runs, a policy-rc.d (Debian's own switch for this) keeps services from starting, unless the
# machine has one already; and what was installed just now is not started at the next boot either.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/python.sh

# What proves that it is here, and the package that brings it.
needs_on_linux() {
  need "has_python" python3-venv
  need "command -v bwrap" bubblewrap
  need "command -v redis-server" redis-server
  need "command -v unshare && command -v setpriv" util-linux
  need "command -v ps" procps
  need "has_postgres" postgresql
  need "ls /etc/OpenCL/vendors/*.icd" pocl-opencl-icd
  need "has_browser" chromium
  need "command -v cc" gcc
  need "command -v dockerd" docker.io
  need "command -v podman" podman
  need "command -v passt" passt
  need "command -v runc" runc
  need "! has_package runsc || command -v runsc" runsc
  need "command -v busybox" busybox-static
  need "command -v haproxy" haproxy
  need "command -v nginx" nginx-light
  need "command -v pgbouncer" pgbouncer
  need "command -v docker-compose" docker-compose
  need "command -v prometheus && command -v promtool" prometheus
  need "command -v prometheus-alertmanager && command -v amtool" prometheus-alertmanager
  need "[ -e /usr/include/stdlib.h ]" libc6-dev
}

needs_on_macos() {
  need "command -v redis-server" redis
}

# The system's Python, where it would be the one for .venv if only it came with venv.
has_python() {
  [ -e .venv/bin/python ] || suits "$(choose_python)" || [ -n "${PYTHON:-}" ] || ! is_new_enough "$system_python"
}

has_postgres() {
  local programs
  for programs in /usr/lib/postgresql/*/bin; do
    [ -x "$programs/postgres" ] && [ "$(basename "$(dirname "$programs")")" -ge 15 ] && return
  done
  return 1
}

# Ubuntu has it as a snap only, which apt does not bring; without one the tests of pages are skipped.
has_browser() {
  command -v chromium || command -v chromium-browser || command -v google-chrome ||
    grep -q '^ID=ubuntu' /etc/os-release
}

# gVisor is Debian's; elsewhere its tests are skipped.
has_package() {
  [ -n "$(apt-cache madison "$1" 2>/dev/null)" ]
}

missing=()
need() {
  eval "$1" >/dev/null 2>&1 || missing+=("$2")
}

list_missing() {
  missing=()
  if [ "$(uname)" = Darwin ]; then needs_on_macos; else needs_on_linux; fi
}

fail() {
  printf 'potluck: %s\n' "$@" >&2
  exit 1
}

find_root() {
  if [ "$(id -u)" = 0 ]; then
    as_root=()
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
  else
    return 1
  fi
}

tell_what_to_install() {
  if [ "$(uname)" = Darwin ]; then
    fail "the tests need what is missing here. Install it with:  brew install ${missing[*]}"
  elif command -v apt-get >/dev/null; then
    fail "the tests need what is missing here, and this user may not install it." \
      "As root:  apt-get install --no-install-recommends ${missing[*]}"
  fi
  fail "the tests need what is missing here. The packages are, by their Debian names:  ${missing[*]}"
}

apt_get() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y \
    -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" >>"$log" 2>&1
}

install_missing() {
  apt_get install --no-install-recommends "${missing[@]}" && return
  # The lists of packages may be old, or not there at all.
  apt_get update && apt_get install --no-install-recommends "${missing[@]}" && return
  tail -n 20 "$log" >&2
  fail "apt-get could not install: ${missing[*]}. Mend the cause above, then try again."
}

policy=/usr/sbin/policy-rc.d
clean_up() {
  [ -z "${made_policy:-}" ] || "${as_root[@]}" rm -f "$policy"
  rm -f "$log"
}

keep_services_from_starting() {
  [ -e "$policy" ] && return
  made_policy=yes
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" install -m 755 /dev/stdin "$policy"
}

keep_services_from_the_next_boot() {
  local package
  [ -d /run/systemd/system ] || return 0
  for package in "${missing[@]}"; do
    case $package in
      redis-server | postgresql | haproxy | pgbouncer | prometheus | prometheus-alertmanager)
        "${as_root[@]}" systemctl disable "$package" >>"$log" 2>&1 || true ;;
      docker.io) "${as_root[@]}" systemctl disable docker.service docker.socket containerd >>"$log" 2>&1 || true ;;
      nginx-light) "${as_root[@]}" systemctl disable nginx >>"$log" 2>&1 || true ;;
      podman) "${as_root[@]}" systemctl disable podman.socket >>"$log" 2>&1 || true ;;
    esac
  done
}

# An Ethereum node for the tests of contract wallets. It is their own, so npm is asked, not apt;
# without npm, or where its registry does not answer within 30 s, those tests are skipped.
install_chain() {
  local chain=tests/chain limit=""
  [ "$chain/node_modules/.package-lock.json" -nt "$chain/package-lock.json" ] && return
  command -v npm >/dev/null || return 0
  # macOS has no such program; there npm's own time limit for a request has to do.
  if command -v timeout >/dev/null; then limit="timeout --foreground --kill-after=2 28"; fi
  echo "Installing the tests' own Ethereum node …"
  if $limit npm --prefix "$chain" install --no-save --no-audit --no-fund --silent \
    --fetch-retries=0 --fetch-timeout=20000; then
    touch "$chain/node_modules/.package-lock.json"
  else
    echo "potluck: the tests of contract wallets are skipped: npm did not install their Ethereum" \
      "node within 30 s. Is its registry reachable?" >&2
  fi
}

install_chain
list_missing
[ ${#missing[@]} -gt 0 ] || exit 0
command -v apt-get >/dev/null && find_root || tell_what_to_install

log=$(mktemp)
trap clean_up EXIT
echo "Installing what the tests need: ${missing[*]} …"
keep_services_from_starting
install_missing
keep_services_from_the_next_boot
list_missing
[ ${#missing[@]} -eq 0 ] || fail "apt-get installed everything, yet these do not work here: ${missing[*]}"
