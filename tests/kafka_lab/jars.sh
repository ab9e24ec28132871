#!/usr/bin/env bash
# Fetches the jars of the laboratory's Kafka: tests/kafka_lab/jars.sh 4.3 makes .cache/lab-jars-4.3/, unless it is there.
set -euo pipefail

# shellcheck source=tools/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../tools/environment.sh"

environment_require_java
have_jars "$CACHE/lab-jars-$1" "$ROOT/tests/kafka_lab/ivy-$1.xml" "Kafka $1 for the laboratory" "a few minutes at most, 50 MB"
