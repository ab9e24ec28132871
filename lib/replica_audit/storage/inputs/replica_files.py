"""Finding the files of a replica again after an audit: by the path that its tables name, else below the inputs of its run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from replica_audit.errors import UsageError
from replica_audit.files.locations import located
from replica_audit.formats.replicas.broker_files import replicas_of
from replica_audit.model import ReplicaFiles
from replica_audit.storage.inputs.sources import confined_to, discover


def replica_files(
    inputs: Sequence[str],
    cluster_id: str,
    broker_id: int,
    log_dir: str,
    directory: str,
    sources: Collection[str],
    *,
    follow_links: bool = False,
) -> ReplicaFiles:
    """The files of one replica directory, as they are now.

    Raw segments are looked for where the table says that they lie. What was dumped or collected lay on the broker; it is found by walking
    the broker's folder again.

    Args:
        inputs: of the run, as `audit_runs` has them.
        cluster_id: of the run's cluster.
        broker_id: the broker that holds the replica.
        log_dir: of `replica_logs`.
        directory: of `replica_logs`.
        sources: the values of `segment_epochs.source` for the replica: raw, dump, collected.
        follow_links: as the run did.

    Raises:
        UsageError: they are no longer there.
    """
    confined_to(inputs, follow_links=follow_links)
    if set(sources) <= {"raw"}:
        found = _among(replicas_of(located(log_dir) / directory, is_replica=True), log_dir, directory)
        if found is not None:
            return found
    for root in discover(inputs, follow_links=follow_links).roots:
        for broker in root.brokers:
            if (root.cluster_id, broker.broker_id) == (cluster_id, broker_id):
                found = _among(replicas_of(broker.path), log_dir, directory)
                if found is not None:
                    return found
    raise UsageError(
        f"{log_dir}/{directory}: the files of broker {broker_id} are not where the audit read them; "
        f"put its input back ({', '.join(inputs) or 'not recorded'}), or audit again"
    )


def _among(found: Iterator[object], log_dir: str, directory: str) -> ReplicaFiles | None:
    held = (one for one in found if isinstance(one, ReplicaFiles))
    return next((one for one in held if (one.log_dir, one.directory) == (log_dir, directory)), None)
