#!/usr/bin/env bash
# tools/pictures.sh [FOLDER]: the pictures of the documents, made from pages of the sample, in docs/images unless another folder is named.
set -euo pipefail

folder="$(realpath -m "${1:-$(dirname "${BASH_SOURCE[0]}")/../docs/images}")"
# shellcheck source=tools/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/environment.sh"
# shellcheck source=tools/browser.sh
source "$ROOT/tools/browser.sh"
cd "$ROOT"

environment_packages test,lint,notebook
browser_ready
mkdir -p "$folder"
"$VENV/bin/python" -m tests.page.pictures "$folder" >/dev/null
say "the pictures are in $folder"
