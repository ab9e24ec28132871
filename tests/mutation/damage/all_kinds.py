"""Every kind of damage, with how often it is drawn."""

from __future__ import annotations

from tests.mutation.damage.logs import batch_field, batches, old_message, segment_file
from tests.mutation.damage.metadata import metadata_field, whole_document
from tests.mutation.damage.shaped_files import collected_file, log_line, text_line
from tests.mutation.damage.small_files import broker_file, broker_folder, directory, epoch_lines, offset_file, offset_lines, topic_id_file
from tests.mutation.damage.tree import Mutator

Kinds = tuple[tuple[Mutator, int], ...]

OF_A_PARTITION: Kinds = (
    (segment_file, 6),
    (batch_field, 6),
    (batches, 6),
    (old_message, 1),
    (epoch_lines, 4),
    (offset_lines, 4),
    (topic_id_file, 1),
    (directory, 2),
    (metadata_field, 3),
    (log_line, 1),
)
OF_ALL: Kinds = ((broker_file, 3), (whole_document, 3), (broker_folder, 1), (offset_file, 4))
OF_TEXTS: Kinds = ((text_line, 1),)
OF_COLLECTIONS: Kinds = ((collected_file, 1),)
