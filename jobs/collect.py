"""Collect on a broker what an audit needs: scans of its segments and copies of its small files, without Spark and Java."""

# runs-on: driver

import sys

from replica_audit.cli import run

if __name__ == "__main__":
    run(["collect", *sys.argv[1:]])
