"""Ask live brokers for a cluster-metadata.json, or compare their answers with the tables of a run."""

# runs-on: driver

import sys

from replica_audit.cli import run

if __name__ == "__main__":
    run(["describe_cluster", *sys.argv[1:]])
