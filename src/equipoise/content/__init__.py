"""Content-based topics: filters, matching and covering sets. Pure.

`parsing` reads a filter, `filter` is what it means, `attributes` finds a message's attributes, `index` the filters that
match it, and `cover_set` keeps the filters that stand for all others.
"""
