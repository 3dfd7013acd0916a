"""Logs of topics at the hub that owns them: what is appended, what is committed, and who waits for either."""
