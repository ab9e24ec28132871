"""The order of a salvage: cuts of a run → the files that hold them → records → replay files → the document."""
