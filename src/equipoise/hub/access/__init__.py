"""Who may connect to a hub, log in and keep its subscriptions."""
