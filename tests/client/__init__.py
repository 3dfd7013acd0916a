"""The client against scripted peers, a real hub and a real Redis."""
