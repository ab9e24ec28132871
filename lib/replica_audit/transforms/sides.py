"""One replica of a pair, or of a partition in which every replica is tried as the leader."""

from __future__ import annotations

from dataclasses import dataclass

from replica_audit.protocol.replica import Replica
from replica_audit.transforms.replicas import Loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """As it was loaded, and as the rules see it."""

    loaded: Loaded
    replica: Replica
