"""The stages of an audit in this process, without Spark. Everything known of a cluster is in memory at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice

import pyarrow as pa

from replica_audit.engine.local_records import records_of
from replica_audit.engine.mapped import Facts, OfPartition
from replica_audit.engine.tally import Order, Tally
from replica_audit.formats.collection.broker_folder import OpenedCollections
from replica_audit.model import Amounts, BytesToRead
from replica_audit.partition.known.known_partition import KnownPartition
from replica_audit.rows.arrow import schema_of_audited
from replica_audit.stages.inventory import bytes_to_read, list_items
from replica_audit.stages.items import OF_PARTITION, Function, Item, Source, Value, partition_of
from replica_audit.stages.judged import judged
from replica_audit.stages.valid_rows import encoded

_AT_ONCE = 256  # partitions whose rows are put into Arrow together


class LocalEngine:
    """Maps the stages over lists; the rows of every table about partitions are kept."""

    def __init__(self) -> None:
        """Begin without any."""
        self.opened = OpenedCollections()
        self._tables: dict[str, list[pa.RecordBatch]] = defaultdict(list)

    def given(self, items: Sequence[Item]) -> Sequence[Item]:
        """Take items."""
        return items

    def flat_map(self, items: Sequence[Item], function: Function) -> Sequence[Item]:
        """Map items to items."""
        return [made for item in items for made in function(item)]

    def select(self, items: Sequence[Item], kinds: Iterable[type]) -> Sequence[Item]:
        """Those of some kinds that are audited."""
        return [item for item in self.collect(items, kinds) if item.is_audited]

    def of_topic(self, items: Sequence[Item], kinds: Iterable[type], topic: str | None) -> Sequence[Item]:
        """Those of some kinds that have a topic, audited or not."""
        return [item for item in self.collect(items, kinds) if item.topic == topic]

    def collect(self, items: Sequence[Item], kinds: Iterable[type]) -> list[Item]:
        """Those of some kinds, audited or not."""
        wanted = frozenset(kinds)
        return [item for item in items if type(item.value) in wanted]

    def keep(self, items: Sequence[Item]) -> Sequence[Item]:
        """They are kept."""
        return items

    def spread(self, readings: Sequence[Item], amounts: Amounts) -> Sequence[Item]:
        """There is one task."""
        return readings

    def group(self, items: Sequence[Sequence[Item]]) -> Iterable[KnownPartition]:
        """All that is known of each partition, in order."""
        wanted = frozenset(OF_PARTITION)
        of: dict[tuple[str, str, int], list[tuple[int | None, Value]]] = defaultdict(list)
        for some in items:
            for cluster, topic, partition, broker, value, _is_audited, _size in some:
                if topic is not None and partition is not None and type(value) in wanted:
                    of[cluster, topic, partition].append((broker, value))
        known = (partition_of(*key, of.pop(key)) for key in sorted(of))
        return [one for one in known if one is not None]

    def map_groups(self, groups: Iterable[KnownPartition], function: OfPartition, facts: Facts) -> Sequence[Item]:
        """Map partitions to items."""
        return [made for known in groups for made in function(known, facts[known.cluster_id])]

    def compare_records(self, groups: Iterable[KnownPartition], facts: Facts, amounts: Amounts) -> Iterable[KnownPartition]:
        """Partitions with what comparing their records gives, one after the other."""
        return (replace(known, records=records_of(known, facts[known.cluster_id])) for known in groups)

    def judge(self, groups: Iterable[KnownPartition], facts: Facts, order: Order, most: int) -> Tally:
        """Judge every partition, and keep the rows."""
        tally = Tally()
        partitions = ((known, facts[known.cluster_id]) for known in groups)
        while some := list(islice(partitions, _AT_ONCE)):
            rows = encoded(list(judged(some)))
            tally.add(rows, len(some))
            for name, batch in rows.items():
                self._tables[name].append(batch)
        tally.keep_worst(order, most)
        return tally

    def rows(self, name: str) -> pa.Table:
        """The rows of a name of AUDITED, with their cluster_id."""
        return pa.Table.from_batches(self._tables[name], schema_of_audited(name))


def listed_amounts(sources: Iterable[tuple[str, int | None, str, str]], topics: str) -> BytesToRead:
    """How much there is of everything; no segment is opened, no server.log read.

    Args:
        sources: what the inventory lists, as of `Root.sources`.
        topics: as the setting.
    """
    listed = (Source(*source) for source in sources)
    return bytes_to_read(item for source in listed if source.kind != "server-log" for item in list_items(source, topics))
