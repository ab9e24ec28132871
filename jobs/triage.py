"""Audit in seconds, in this process: no Spark, no Java, no tables."""

# runs-on: driver

import sys

from replica_audit.cli import run

if __name__ == "__main__":
    run(["triage", *sys.argv[1:]])
