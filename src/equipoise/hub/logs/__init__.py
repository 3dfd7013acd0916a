"""Logs of topics at their owner: appends, commits and waiting reads."""
