"""The order of an upkeep: which runs go → their rows → small files → files that nothing uses."""
