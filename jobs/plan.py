"""Write the repair steps for a past run, with files that Kafka's own tools read."""

# runs-on: driver

import sys

from replica_audit.cli import run

if __name__ == "__main__":
    run(["plan", *sys.argv[1:]])
