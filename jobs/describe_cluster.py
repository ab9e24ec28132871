"""Ask live brokers for a cluster-metadata.json, or whether they still answer as the tables of a run say."""

# runs-on: driver

import sys

from replica_audit.cli import run

if __name__ == "__main__":
    run(["describe_cluster", *sys.argv[1:]])
