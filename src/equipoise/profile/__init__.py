"""Find out what one hub on this machine can carry before its messages are late (ePulsar, 5.4).

Read `cases` (what is swept), `driver` (one load, measured), `sweep` (all of them), `knees` (which number foretells
lateness, and from where on), `advice` (what to set).
"""
