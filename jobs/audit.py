"""Audit the replicas' logs: find divergence, what each follower will truncate, and what is lost."""

# runs-on: spark

import sys

from replica_audit.cli import main

if __name__ == "__main__":
    sys.exit(main(["audit", *sys.argv[1:]]))
