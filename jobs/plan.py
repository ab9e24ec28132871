"""Write what to do about a past run, as files that Kafka's own tools take."""

# runs-on: driver

import sys

from replica_audit.cli import run

if __name__ == "__main__":
    run(["plan", *sys.argv[1:]])
