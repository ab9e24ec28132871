"""The verdicts that real scenarios must get, by name of the scenario.

Derived by hand from what the brokers did, as far as checkpointed high watermarks prove what was committed. Where the ISR proves more, the
followers and their verdicts are those of tests/data/expected/committed-by-isr.json, each scenario with the reason.

`cut`: the verdict of every follower that the brokers truncated. `named`: single followers, as
`topic-partition/broker`. Every other follower must be clean.
"""

from __future__ import annotations

from dataclasses import dataclass, field

CLEAN = frozenset({"identical", "lagging", "consistent"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """`everything`: the verdict of all followers, cut or not."""

    cut: str | None = None
    everything: str | None = None
    named: dict[str, str] = field(default_factory=dict)


def _same(scenarios: str, **values: object) -> dict[str, Expected]:
    return {name: Expected(**values) for name in scenarios.split()}  # type: ignore[arg-type]


BEFORE: dict[str, Expected] = {
    **_same("clean-in-sync kafka-1.1.1-kip101-scenario-1"),
    **_same("committed-loss compacted-divergence compacted-key-loss kip279-elr-off txn-loss", cut="committed_loss"),
    **_same(
        "kip279-fast-failover kip279-two-rounds multi-round three-way stale-tail elr-election mixed-leaders random-histories "
        "kafka-1.1.1-stale-tail kafka-2.4.1-stale-tail kafka-3.9.1-stale-tail "
        "kafka-1.1.1-ibp-0.10.2-hw-stale-tail kafka-2.4.1-ibp-0.10.2-hw-stale-tail kafka-1.1.1-ibp-0.10.2-hw-unclean-old-checkpoint "
        "kafka-2.4.1-kip279-scenario-1-all kafka-2.4.1-kip279-scenario-1-batches kafka-2.4.1-kip279-scenario-1-live "
        "kafka-2.4.1-kip279-scenario-1-served kafka-2.4.1-ibp-2.0-kip279-scenario-1 "
        "kafka-3.9.1-kip279-two-rounds kafka-3.9.1-multi-round kafka-3.9.1-kip279-fast-failover",
        cut="stale_tail",
    ),
    **_same(
        "kafka-1.1.1-committed-loss kafka-2.4.1-committed-loss kafka-3.9.1-committed-loss kafka-2.4.1-kip279-unclean-failover-all "
        "kafka-2.4.1-two-rounds kafka-2.4.1-multi-round kafka-2.4.1-kip279-scenario-3",
        cut="committed_loss",
    ),
    **_same(
        "kafka-1.1.1-kip279-scenario-1-all kafka-1.1.1-kip279-scenario-1-batches kafka-1.1.1-kip279-scenario-1-live "
        "kafka-1.1.1-kip279-scenario-1-n-equal kafka-1.1.1-kip279-scenario-1-n-greater kafka-1.1.1-kip279-scenario-1-n-less "
        "kafka-1.1.1-kip279-scenario-1-restart-dead kafka-1.1.1-kip279-scenario-1-restart-hole kafka-1.1.1-kip279-scenario-1-served "
        "kafka-1.1.1-ibp-0.11.0-kip279-scenario-1 kafka-1.1.1-kip279-unclean-failover-all kafka-1.1.1-kip279-unclean-failover-batches "
        "kafka-1.1.1-kip279-unclean-failover-n-equal kafka-1.1.1-kip279-unclean-failover-n-greater "
        "kafka-1.1.1-kip279-unclean-failover-n-less kafka-1.1.1-two-rounds kafka-1.1.1-multi-round kafka-1.1.1-kip279-scenario-3 "
        "kafka-2.4.1-ibp-1.1-kip279-scenario-1 kafka-mixed-1.1.1-2.4.1-ibp-1.1-kip279-scenario-1",
        everything="log_matching_violation",
    ),
    **_same("jbod-and-leftovers", cut="committed_loss"),
    **_same("disk-full-torn-batch"),
    "leader-trimmed": Expected(cut="committed_loss", named={"audit-0/2": "inconclusive", "audit-4/2": "inconclusive"}),
    "tampered-diverged-clean-shutdown": Expected(
        everything="committed_loss", named={f"ledger-{partition}/2": "log_matching_violation" for partition in (1, 2, 3, 4)}
    ),
    "tampered-diverged-unclean-shutdown": Expected(everything="committed_loss"),
    **_same(
        "kafka-1.1.1-ibp-0.10.2-hw-unclean-failover kafka-2.4.1-ibp-0.10.2-hw-unclean-failover",
        everything="content_mismatch",
        named={"v1orders-3/2": "committed_loss"},
    ),
    "kafka-1.1.1-ibp-0.10.2-kip101-scenario-1": Expected(named={"accounts-2/2": "content_mismatch", "accounts-2/3": "stale_tail"}),
}

AFTER: dict[str, Expected] = {
    **{name: expected for name, expected in BEFORE.items() if expected.everything == "log_matching_violation"},
    **_same(
        "kafka-1.1.1-kip279-scenario-1-all kafka-1.1.1-kip279-scenario-1-restart-dead kafka-1.1.1-kip279-unclean-failover-all",
        everything="log_matching_violation",
        named={"orders-2/2": "lagging"},
    ),
    **_same(
        "kafka-1.1.1-ibp-0.10.2-hw-unclean-failover kafka-2.4.1-ibp-0.10.2-hw-unclean-failover",
        everything="content_mismatch",
    ),
    "kafka-1.1.1-ibp-0.10.2-kip101-scenario-1": Expected(named={"accounts-2/2": "content_mismatch"}),
    "compacted-key-loss": Expected(named={f"settings-{partition}/1": "compaction_differs" for partition in (0, 1)}),
    "leader-trimmed": Expected(named={"audit-1/2": "inconclusive"}),
    "tampered-diverged-clean-shutdown": Expected(
        named={f"ledger-{partition}/2": "log_matching_violation" for partition in (1, 2, 3, 4)}
        | {f"ledger-{partition}/2": "epoch_table_only" for partition in (7, 9)}
    ),
    "tampered-diverged-unclean-shutdown": Expected(named={f"ledger-{partition}/2": "epoch_table_only" for partition in (7, 9)}),
}

# broker 2's replica of the partition that was changed: (verdicts, code in input_errors, which of its positions is known)
CORRUPTED: dict[str, tuple[frozenset[str], str | None, str | None]] = {
    "flipped-byte-clean-shutdown": (frozenset({"unreadable"}), "crc-mismatch", "byte_offset"),
    "flipped-byte-early-segment-unclean": (frozenset({"unreadable"}), "crc-mismatch", "byte_offset"),
    "flipped-byte-unclean-shutdown": (frozenset({"lagging"}), "crc-mismatch", "byte_offset"),
    "cut-tail-clean-shutdown": (frozenset({"lagging"}), "torn-batch", "byte_offset"),
    "cut-tail-unclean-shutdown": (frozenset({"lagging"}), "torn-batch", "byte_offset"),
    "cut-at-batch-boundary": (frozenset({"lagging"}), None, None),
    "zero-filled-tail": (CLEAN, "zero-filled-tail", "byte_offset"),
    "checkpoint-garbled": (frozenset({"unreadable"}), "malformed", "line"),
    "checkpoint-binary-garbage": (frozenset({"unreadable"}), "malformed", "byte_offset"),
    "checkpoint-count-mismatch": (frozenset({"unreadable"}), "malformed", "line"),
    "checkpoint-wrong-version": (frozenset({"unreadable"}), "malformed", "line"),
    "checkpoint-crlf-and-trailing-blank": (frozenset({"unreadable"}), "malformed", "line"),
    "checkpoint-missing-epoch": (frozenset({"epoch_table_only"}), "checkpoint-contradicts-batches", "line"),
    "checkpoint-empty-file": (frozenset({"epoch_table_only"}), "checkpoint-contradicts-batches", None),
    "checkpoint-zero-entries": (frozenset({"epoch_table_only"}), "checkpoint-contradicts-batches", None),
    "checkpoint-deleted": (frozenset({"epoch_table_only"}), "checkpoint-contradicts-batches", None),
    "checkpoint-shifted-start": (frozenset({"epoch_table_only"}), "checkpoint-contradicts-batches", "line"),
    "checkpoint-entries-out-of-order": (frozenset({"epoch_table_only"}), "checkpoint-out-of-order", "line"),
    "checkpoint-decreasing-offset": (frozenset({"epoch_table_only"}), "checkpoint-out-of-order", "line"),
    "checkpoint-extra-future-epoch": (CLEAN, "checkpoint-beyond-log-end", "line"),
    "batch-epoch-restamped": (frozenset({"log_matching_violation"}), None, None),
    "middle-segment-deleted": (frozenset({"log_matching_violation"}), "missing-offsets", None),
}
