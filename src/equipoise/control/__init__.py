"""The loop around the planner: read facts, decide, write the store; lead or follow. Operator actions, too.

Nothing is re-exported: a command that only moves a topic does not load the planner.
"""
