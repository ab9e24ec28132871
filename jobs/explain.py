"""Explain one partition of a past run: both logs drawn, the exchange, what is lost and what to do about it."""

# runs-on: driver

import sys

from replica_audit.cli import run

if __name__ == "__main__":
    run(["explain", *sys.argv[1:]])
