#!/usr/bin/env bash
# Fetches the jars of the tests' YARN: makes .cache/yarn-jars/, unless it is there.
set -euo pipefail

# shellcheck source=tools/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../tools/environment.sh"

environment_require_java
have_jars "$CACHE/yarn-jars" "$ROOT/tests/cluster_mode/ivy-yarn.xml" "Hadoop's YARN for the tests" "a minute at most, 67 MB"
