"""The hub of each topic and the link of each subscription."""
