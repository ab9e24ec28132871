#!/usr/bin/env bash
# tools/site.sh [FOLDER]: the documents as a site, in site/ unless another folder is named; open its index.html.
#
# Strict: a link that leads nowhere, an anchor that does not exist and a page that no navigation names end it with exit code 1.
# It uses .venv/ where tests/run.sh has set that up; else it makes .cache/site-venv/ (160 MB), for which a package index must be reachable.
set -euo pipefail

output="$PWD/${1:-site}"
case "${1:-}" in
/*) output="$1" ;;
"") output="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/site" ;;
esac
# shellcheck source=tools/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
cd "$ROOT"
own="$CACHE/site-venv"

# True if an environment has each package of conf/requirements/docs.txt in its version.
has_packages() {
    [ -x "$1/bin/python" ] && "$1/bin/python" -I - "$REQUIREMENTS/docs.txt" <<'PYTHON'
import importlib.metadata
import re
import sys

try:
    with open(sys.argv[1], encoding="utf-8") as lines:
        wanted = [line.split()[0].split("==") for line in lines if re.match(r"[\w.-]+==", line) and "sys_platform" not in line]
    sys.exit(any(importlib.metadata.version(name) != version for name, version in wanted))
except importlib.metadata.PackageNotFoundError:
    sys.exit(1)
PYTHON
}

make_environment() {
    has_packages "$own" && return # made by the start that we waited for
    say "setting up: installing what builds the site (a minute, 160 MB) ..."
    if ! { "$PYTHON" -m venv --clear "$own" && "$own/bin/python" -I -m pip install --quiet --no-input --disable-pip-version-check \
        --require-hashes --requirement "$REQUIREMENTS/docs.txt"; } >"$CACHE/setup.log" 2>&1; then
        rm -rf "$own"
        setup_failed "what builds the site could not be installed" \
            "A package index must be reachable; pip's own settings (PIP_INDEX_URL, PIP_PROXY ...) are honoured."
    fi
}

environment="$VENV"
if ! has_packages "$VENV"; then
    environment="$own"
    has_packages "$own" || locked make_environment
fi

# Links, not copies: each text exists once. The folders are those of the checkout, and so are all relative links.
source_folder="$CACHE/site-source"
rm -rf "$source_folder"
mkdir -p "$source_folder/benchmarks"
for name in README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE docs benchmarks/README.md; do
    ln -s "$ROOT/$name" "$source_folder/$name"
done

# The variable keeps the theme from advertising what its authors make next. Not --quiet, with which warnings do not count.
if ! said="$(NO_MKDOCS_2_WARNING=1 "$environment/bin/python" -I -m mkdocs build --strict --config-file "$ROOT/mkdocs.yml" --site-dir "$output" 2>&1)"; then
    printf '%s\n' "$said" | grep -v '^INFO' >&2 || true
    say "error: the site was not built; see the lines above"
    exit 1
fi
say "the site is in $output: open index.html"
