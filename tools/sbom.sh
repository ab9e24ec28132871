#!/usr/bin/env bash
# tools/sbom.sh [FILE]: the bill of materials of what .venv/ has, as CycloneDX 1.6 in JSON; sbom.json unless another file is named.
#
# Run it in a checkout that ./spark-submit.sh has set up, for tests/run.sh installs more. The tool is fetched into .cache/, beside the packages
# that it describes. The same packages give the same bytes.
set -euo pipefail

output="$PWD/sbom.json"
if [ $# -gt 0 ]; then output="$(cd "$(dirname "$1")" && pwd)/$(basename "$1")"; fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."
tool=".cache/sbom-7.5.0"
if [ ! -x .venv/bin/python ]; then
    echo "error: there is no .venv: run ./spark-submit.sh once, which sets it up" >&2
    exit 2
fi
if [ ! -x "$tool/bin/cyclonedx-py" ]; then
    rm -rf "$tool"
    python3 -m venv "$tool"
    "$tool/bin/python" -m pip install --quiet --disable-pip-version-check "cyclonedx-bom==7.5.0"
fi
"$tool/bin/cyclonedx-py" environment --output-reproducible --spec-version 1.6 --output-format JSON --output-file "$output" .venv/bin/python
