#!/usr/bin/env bash
# Writes conf/requirements/ anew: every package of conf/constraints.txt with the SHA-256 of each of its files, for any platform and
# Python 3.11 or newer. Run it after a change of setup.cfg or of conf/constraints.txt.
#
# Asks the index that pip asks (PIP_INDEX_URL), in a virtual environment that is thrown away.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
made=conf/requirements
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check uv
if [ -n "${PIP_INDEX_URL:-}" ]; then export UV_DEFAULT_INDEX="$PIP_INDEX_URL"; fi
mkdir -p "$made"

# lock NAME ARGUMENTS...: what uv resolves, as conf/requirements/NAME.txt
lock() {
    local name="$1"
    shift
    "$work/venv/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
        --constraint conf/constraints.txt --output-file "$work/$name.txt" "$@"
    { printf '# Made by tools/lock.sh from conf/constraints.txt: not to be edited.\n' && cat "$work/$name.txt"; } >"$made/$name.txt"
}

printf 'setuptools\n' >"$work/build.in"
lock build "$work/build.in"
# Of the site only what builds it, without what the product needs: tools/site.sh makes an environment of it.
python3 - >"$work/docs.in" <<'PYTHON'
import configparser

setup = configparser.ConfigParser()
setup.read("setup.cfg")
print(setup["options.extras_require"]["docs"].strip())
PYTHON
lock docs "$work/docs.in"
lock run setup.cfg --extra spark --extra cluster # what spark-submit.sh installs
lock extras setup.cfg --all-extras
