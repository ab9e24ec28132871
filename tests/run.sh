#!/usr/bin/env bash
# Checks and tests.
#
#   tests/run.sh                   all of them, but for those that tests/nightly.sh runs
#   tests/run.sh --fast            all checks, and the tests that need no Java, no browser and less than two seconds each
#   tests/run.sh --nightly         the tests that are marked `nightly`
#   tests/run.sh ARGS...           ARGS are given to pytest, and nothing else runs
#   tests/run.sh --fast ARGS...    the same, of the fast tests; likewise --nightly
set -euo pipefail

# shellcheck source=tools/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/../tools/environment.sh"
# shellcheck source=tools/oracle.sh
source "$ROOT/tools/oracle.sh"
# shellcheck source=tools/browser.sh
source "$ROOT/tools/browser.sh"
cd "$ROOT"

fast="" nightly=""
case "${1:-}" in
--fast) fast="--fast" && shift ;;
--nightly) nightly="--nightly" && shift ;;
esac

if [ -z "$fast" ]; then environment_require_java; fi
environment_packages test,lint,notebook
if [ -z "$fast" ]; then
    environment_jars
    environment_classes
    oracle_jars
    strimzi_jars
    if [ $# -eq 0 ]; then
        browser_ready
        for line in 4.3 ${nightly:+3.9}; do tests/kafka_lab/jars.sh "$line"; done
    fi
fi

# The tests make their own sessions; here only what has to be said before a JVM starts: no second compiler, which costs
# short runs more than it gives.
environment_spark_variables
export PYSPARK_SUBMIT_ARGS="--driver-memory 2g --conf spark.driver.defaultJavaOptions=-XX:TieredStopAtLevel=1\ -XX:ReservedCodeCacheSize=256m pyspark-shell"

failed=""
# Prints what a check says only where it fails.
check() {
    local output
    if output="$("$@" 2>&1)"; then
        printf 'ok      %s\n' "$*"
    else
        printf '%s\nFAILED  %s\n' "$output" "$*"
        failed="$failed $1"
    fi
}

if [ $# -eq 0 ]; then
    # Two workers, a file at a time: what starts a JVM starts it once.
    set -- -n 2 --dist loadfile --no-loadscope-reorder
    if [ -z "$nightly" ]; then
        check ruff check .
        check ruff format --check .
        check mypy
        check lint-imports --cache-dir .cache/import-linter
    fi
fi

# Last, so that its closing line ends the output.
result=0
python -m pytest ${fast:+"$fast"} ${nightly:+"$nightly"} "$@" || result=$?
if [ -n "$failed" ]; then
    say "failed before the tests:$failed"
    exit 1
fi
exit "$result"
