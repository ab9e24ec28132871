"""Keep a warehouse small: remove old runs, merge small files, remove files that nothing uses."""

# runs-on: spark
# takes: --dry-run

import sys

from replica_audit.cli import main

if __name__ == "__main__":
    sys.exit(main(["maintain", *sys.argv[1:]]))
