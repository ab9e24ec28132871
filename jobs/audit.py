"""Audit the replicas' logs: find divergence, what each follower will truncate, and what is lost."""

# runs-on: spark

import sys

from replica_audit.cli import run_on_spark

if __name__ == "__main__":
    run_on_spark(["audit", *sys.argv[1:]])
