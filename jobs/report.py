"""Show a past run: as one HTML page, as text or as JSON."""

# runs-on: driver

import sys

from replica_audit.cli import run

if __name__ == "__main__":
    run(["report", *sys.argv[1:]])
