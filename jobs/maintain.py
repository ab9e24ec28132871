"""Keep a warehouse small: remove old runs, merge small files, remove files that nothing uses."""

# runs-on: driver
# takes: --spark
# takes: --dry-run

import sys

from replica_audit.cli import run_on_spark

if __name__ == "__main__":
    run_on_spark(["maintain", *sys.argv[1:]])
