"""Replicas of brokers that are gone: fetched again by other brokers, or by an empty broker with the same id.

An empty broker that the ISR or the ELR still names may be elected: with an empty log, to which the others then truncate. With directory ids
(KIP-858) the controller waits until the broker has said in which directory the replica is, no longer; only where it keeps an ELR (KIP-966)
does it take a broker that comes without the marker of a clean stop off the list. Sources: ReplicationControlManager (LeaderAcceptor,
handleAssignReplicasToDirs, handleBrokerShutdown), StorageTool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from replica_audit.recovery.commands import SERVER, Tools, reassignment_json
from replica_audit.recovery.elections import leaders_by_plan
from replica_audit.recovery.facts import PartitionKey, RecoveryFacts
from replica_audit.recovery.gone import brokers_shown, gone_replicas
from replica_audit.recovery.names import partition_shown
from replica_audit.recovery.rebuilds import THROTTLE, VERIFIED
from replica_audit.recovery.steps import Check, PlanFile, PlanPart, PlanRefusal, PlanStep, PutBack, Shows, Stage, StartBroker, WaitForIsr
from replica_audit.rows.replicas import ReplicaRole
from replica_audit.words import count

_MOST = 20
_NO_LEADER = "it still has no leader after this plan; elect one and plan again"
_MOVE, _UNDO = "reassign-from-gone.json", "reassign-from-gone-undo.json"


def replacing(facts: RecoveryFacts, tools: Tools) -> PlanPart:
    """One step if other brokers can take every lost replica, else one for each broker to replace; refused where that would cost a log."""
    lost = _assigned(facts)
    led = leaders_by_plan(facts)
    alone = [key for key, roles in lost.items() if all(role.broker_id in facts.gone for role in roles)]
    waiting = [key for key in lost if key in facts.leaderless and key not in led and key not in alone]
    moved = _elsewhere(facts, lost, [key for key in lost if key not in alone and key not in waiting])
    if moved:
        refusals = [PlanRefusal(what="rebuild the lost replica of", of=(key,), why=_NO_LEADER) for key in waiting]
        return PlanPart(steps=(_move(facts, moved, lost, tools),), refusals=tuple(refusals))
    if waiting:
        why = (
            f"{_NO_LEADER}; until then an empty broker with its id could lead it with an empty log, and the others would truncate "
            "everything"
        )
        what = f"replace {brokers_shown(facts.gone)} by an empty one, for"
        return PlanPart(refusals=tuple(PlanRefusal(what=what, of=(key,), why=why) for key in waiting))
    return PlanPart(steps=tuple(_replaced(broker, lost, alone, tools) for broker in sorted(_lost_with(facts, lost))))


def _assigned(facts: RecoveryFacts) -> dict[PartitionKey, list[ReplicaRole]]:
    """The assignment of each partition that has a replica on a broker that is gone; not where its order is not known."""
    found = {key: [role for role in facts.replicas[key] if role.position is not None] for key in gone_replicas(facts)}
    return {key: roles for key, roles in found.items() if any(role.broker_id in facts.gone for role in roles)}


def _lost_with(facts: RecoveryFacts, lost: Mapping[PartitionKey, Sequence[ReplicaRole]]) -> set[int]:
    return {role.broker_id for roles in lost.values() for role in roles} & facts.gone


def _elsewhere(
    facts: RecoveryFacts, lost: Mapping[PartitionKey, Sequence[ReplicaRole]], keys: Sequence[PartitionKey]
) -> dict[PartitionKey, list[int]]:
    """New assignments, each lost replica on the broker that takes fewest of them; empty where a partition has no broker left for it."""
    taken: Counter[int] = Counter()
    made: dict[PartitionKey, list[int]] = {}
    for key in sorted(keys):
        brokers = [role.broker_id for role in lost[key]]
        for place, broker in enumerate(brokers):
            free = facts.brokers - facts.gone - set(brokers)
            if broker in facts.gone and not free:
                return {}
            if broker in facts.gone:
                brokers[place] = min(free, key=lambda one: (taken[one], one))
                taken[brokers[place]] += 1
        made[key] = brokers
    return made


def _move(
    facts: RecoveryFacts, moved: Mapping[PartitionKey, Sequence[int]], lost: Mapping[PartitionKey, Sequence[ReplicaRole]], tools: Tools
) -> PlanStep:
    gone = brokers_shown(facts.gone)
    before = {key: [role.broker_id for role in lost[key]] for key in moved}
    return PlanStep(
        stage=Stage.REBUILD,
        title=f"Rebuild {count(len(moved), 'lost replica')} on other brokers",
        actions=tuple(PutBack((*key, broker)) for key, brokers in moved.items() for broker in brokers if broker not in before[key]),
        reasons=(
            f"{gone.capitalize()} will not come back (--gone). Other brokers take its replicas and fetch them from the leaders; "
            f"which broker takes which is in {_MOVE}, spread evenly. Racks and free disk space "
            "are not known to this plan: check the file first.",
            f"If you have an empty machine to replace {gone}, skip this step and start it with the same id once "
            "every partition has a leader: an empty broker that a partition's ISR still names could lead it with an empty log.",
            f"The throttle, {THROTTLE} bytes per second, protects clients; raise it if there is room.",
        ),
        commands=(tools.reassign(_MOVE, f"--throttle {THROTTLE} --execute"),),
        checks=(Check(f"{tools.reassign(_MOVE, '--verify')}   # {VERIFIED}", Shows.IN_SYNC),),
        undo=f"`{tools.reassign(_UNDO, '--execute')}`: the same assignment as before, with {gone}.",
        files=(PlanFile(name=_MOVE, content=reassignment_json(moved)), PlanFile(name=_UNDO, content=reassignment_json(before))),
    )


def _replaced(broker: int, lost: Mapping[PartitionKey, Sequence[ReplicaRole]], alone: Sequence[PartitionKey], tools: Tools) -> PlanStep:
    fetched = sum(any(role.broker_id == broker for role in roles) for roles in lost.values())
    own = [key for key in alone if any(role.broker_id == broker for role in lost[key])]
    return PlanStep(
        stage=Stage.REBUILD,
        actions=(StartBroker(broker, empty=True), WaitForIsr((broker,))),
        title=f"Replace broker {broker} by an empty one with the same id: it fetches {count(fetched, 'replica')} again",
        reasons=(
            f"Broker {broker} will not come back (--gone). No other broker is free to take all of its replicas.",
            "Only when every partition has a leader, which the first line checks: an empty broker that a partition's ISR still names can "
            "be elected with an empty log, and the other replicas would then truncate everything.",
            *_empty_again(broker, own),
            "Use empty disks and the `server.properties` of the lost broker. Do not copy its `meta.properties`: a new one is written.",
            *(_why_formatted(broker, tools) if tools.formats else ()),
        ),
        commands=(
            f"{tools.topics('--unavailable-partitions')}   # {_expected(own)}: else stop here",
            *(_format(broker) if tools.formats else ()),
            f"# start broker {broker} on its host",
        ),
        checks=(Check(tools.in_sync({broker}), Shows.IN_SYNC),),
        undo=f"Stop broker {broker} and empty its disks: the partitions have one replica less again, as before.",
    )


def _why_formatted(broker: int, tools: Tools) -> Iterator[str]:
    yield "CLUSTER_ID is what the second line prints. The third one gives the disks directory ids that no partition is assigned to yet."
    yield (
        f"If broker {broker} is also a controller (`process.roles`), check `kafka-metadata-quorum.sh describe --status` first: a majority "
        "of the other voters has to be up. Where voters are added and removed by `kafka-metadata-quorum.sh` (KIP-853), remove the lost one "
        "first, and format with `--no-initial-controllers`."
    )
    if tools.may_have_zookeeper:
        yield "A cluster with ZooKeeper has no such files: leave out the second and the third line."


def _format(broker: int) -> tuple[str, str]:
    return (
        f"kafka-cluster.sh cluster-id {SERVER}",
        f"# on the host of the new broker {broker}: kafka-storage.sh format --cluster-id CLUSTER_ID --config server.properties",
    )


def _expected(alone: Sequence[PartitionKey]) -> str:
    return "must print nothing but the partitions named above" if alone else "must print nothing"


def _empty_again(broker: int, alone: Sequence[PartitionKey]) -> Iterator[str]:
    if alone:
        named = ", ".join(partition_shown(*key) for key in alone[:_MOST])
        more = f" and {len(alone) - _MOST} more" if len(alone) > _MOST else ""
        yield (
            f"All replicas of {named}{more} were on brokers that are gone: with the new broker {broker} they start empty again, at "
            "offset 0."
        )
