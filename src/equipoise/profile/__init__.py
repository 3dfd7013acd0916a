"""Measure the capacity of one hub on this machine: the load at which messages become late (ePulsar, 5.4).

Read `cases` (what is swept), `driver` (one load, measured), `sweep` (all of them), `knees` (which number foretells
lateness, and from where on), `advice` (what to set).
"""
