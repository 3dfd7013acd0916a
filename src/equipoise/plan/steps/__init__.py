"""The steps of the planner, one file each."""
