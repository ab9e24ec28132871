"""The commands, one in each module: options, help, exit codes. What they need is imported when they run."""
