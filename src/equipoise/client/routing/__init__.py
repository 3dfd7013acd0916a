"""Which hub serves which topic, and which link serves which subscription."""
