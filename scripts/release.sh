#!/usr/bin/env bash
# Makes a release in dist/: wheel, sdist, a list of what is in it (CycloneDX), and checksums.
#
# From the last commit, and nothing else: two runs on two machines write the same bytes. All tools
# are pinned in locks/release.txt, and times are those of the commit.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
  printf 'potluck: %s\n' "$*" >&2
  exit 1
}

git rev-parse --verify --quiet HEAD >/dev/null || fail "a release is made from a git repository."
[ -z "$(git status --porcelain)" ] ||
  echo "potluck: what is not committed is not part of the release." >&2

tools=$PWD/.venv/release/bin
out=${1:-dist}
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/source" "$work/dist"
git archive HEAD | tar -C "$work/source" -xf -
[ ! -e "$work/source/web/package.json" ] ||
  .venv/bin/python -m scripts.web --checkout "$work/source" >&2 ||
  fail "a release needs the dashboard."
rm -rf "$work/source/web/node_modules" "$work/source/web/dist" "$work/source/.cache"

"$tools/python" -m build --no-isolation --outdir "$work/dist" "$work/source" >"$work/log" 2>&1 ||
  { cat "$work/log" >&2; fail "the build failed."; }

# What an installation has, by the lock; with licences, from an environment of its own.
.venv/bin/uv venv --quiet --python .venv/bin/python "$work/installed"
.venv/bin/uv pip install --quiet --python "$work/installed/bin/python" --require-hashes \
  -r "$work/source/locks/run.txt"
.venv/bin/uv pip install --quiet --python "$work/installed/bin/python" --no-deps "$work"/dist/*.whl
name=$(basename "$work"/dist/*.tar.gz .tar.gz)
"$tools/cyclonedx-py" environment --pyproject "$work/source/pyproject.toml" --output-reproducible \
  --output-format JSON --spec-version 1.6 --output-file "$work/dist/$name.cdx.json" \
  "$work/installed/bin/python" 2>"$work/log" || { cat "$work/log" >&2; fail "no list of parts."; }

(cd "$work/dist" && sha256sum -- * >"$work/SHA256SUMS")
mkdir -p "$out"
rm -f "$out"/potluck-*.whl "$out"/potluck-*.tar.gz "$out"/potluck-*.cdx.json "$out/SHA256SUMS"
cp "$work"/dist/* "$work/SHA256SUMS" "$out/"
cat "$out/SHA256SUMS"
