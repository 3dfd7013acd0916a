"""The command line: one file per command, no logic of its own."""
