"""What an explanation says, section by section, as blocks of a document."""
