"""Lines of 80 columns: paragraphs, tables, bars over offsets."""
