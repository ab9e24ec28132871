#!/usr/bin/env bash
# The tests that take too long for every change: run them once a night, and before a release.
#
#   tests/nightly.sh            all of them
#   tests/nightly.sh ARGS...    ARGS are given to pytest
exec "$(dirname "${BASH_SOURCE[0]}")/run.sh" --nightly "$@"
