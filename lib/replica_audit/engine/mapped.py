"""What an engine does with the stages of an audit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from replica_audit.engine.tally import Order, Tally
from replica_audit.formats.collection.broker_folder import OpenedCollections
from replica_audit.model import Amounts
from replica_audit.partition.known.cluster_facts import ClusterFacts
from replica_audit.partition.known.known_partition import KnownPartition
from replica_audit.stages.items import Function, Item

Items = TypeVar("Items")
Groups = TypeVar("Groups")
OfPartition = Callable[[KnownPartition, ClusterFacts], Iterable[Item]]
Facts = Mapping[str, ClusterFacts]  # by cluster


class Engine(Protocol[Items, Groups]):
    """What maps the stages over items and partitions."""

    @property
    def opened(self) -> OpenedCollections | None:
        """What stages keep of collections between them; None where each runs in tasks of its own."""

    def given(self, items: Sequence[Item]) -> Items:
        """Take items that are known here, each as much work as any."""

    def flat_map(self, items: Items, function: Function) -> Items:
        """Map items to items."""

    def select(self, items: Items, kinds: Iterable[type]) -> Items:
        """Those of some kinds that are audited."""

    def of_topic(self, items: Items, kinds: Iterable[type], topic: str | None) -> Items:
        """Those of some kinds that have a topic, audited or not; None: that have none."""

    def collect(self, items: Items, kinds: Iterable[type]) -> list[Item]:
        """Bring items of some kinds here, audited or not."""

    def keep(self, items: Items) -> Items:
        """Have items made once, though they are used more than once."""

    def spread(self, readings: Items, amounts: Amounts) -> Items:
        """Have as much to read in each task."""

    def group(self, items: Sequence[Items]) -> Groups:
        """All that is known of each partition."""

    def map_groups(self, groups: Groups, function: OfPartition, facts: Facts) -> Items:
        """Map partitions to items."""

    def compare_records(self, groups: Groups, facts: Facts, amounts: Amounts) -> Groups:
        """Partitions with what comparing their records gives."""

    def judge(self, groups: Groups, facts: Facts, order: Order, most: int) -> Tally:
        """Judge every partition; the rows are then in the engine."""
