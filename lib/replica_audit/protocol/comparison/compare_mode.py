"""How closely two replicas are compared: what is read of their logs, and what of it counts."""

from __future__ import annotations

from enum import StrEnum


class CompareMode(StrEnum):
    """What an audit compares, each mode all that those before it do."""

    EPOCHS = "epochs"  # checkpoints and the headers of batches: neither CRCs nor digests are taken
    CONTENT = "content"  # the bytes of batches: each by its CRC, and by digests with those of the other replica
    RECORDS = "records"  # of compacted topics also the records: for each key the newest one that survives
