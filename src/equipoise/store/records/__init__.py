"""Records in the store: plan, hubs, specs, users, leader, servers."""
