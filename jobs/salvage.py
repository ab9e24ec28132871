"""Save the records that truncations remove, from the replicas that hold them, for a replay."""

# runs-on: spark

import sys

from replica_audit.cli import main

if __name__ == "__main__":
    sys.exit(main(["salvage", *sys.argv[1:]]))
