"""Save the records that truncations remove, from the replicas that hold them, for a replay."""

# runs-on: spark

import sys

from replica_audit.cli import run_on_spark

if __name__ == "__main__":
    run_on_spark(["salvage", *sys.argv[1:]])
