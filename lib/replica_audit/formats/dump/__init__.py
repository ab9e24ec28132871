"""Text of kafka-dump-log, as it was written and as people paste it."""
