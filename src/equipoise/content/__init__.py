"""Content-based topics: filters, matching and covering sets. Pure.

`parsing` parses a filter, `filter` is its canonical form, `attributes` extracts a message's attributes, `index` finds
the matching filters, and `cover_set` keeps the filters that cover all others.
"""
