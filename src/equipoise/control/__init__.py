"""The loop around the planner: read facts, decide, write to the store; lead or stand by. Operator actions.

Nothing is re-exported: a command that only moves a topic does not load the planner.
"""
