"""Connections to hubs: dialing, requests in flight, and the names subscribed on each link."""
