"""Filters and messages that match often: few attributes, few values."""

from __future__ import annotations

import json

from hypothesis import strategies as st

PATHS = ("a", "b", "c.d", '"odd name"', "e")
NUMBERS = ("0", "1", "2", "2.5", "3", "-1", "1e3", "10")
STRINGS = ('""', '"x"', "'xy'", '"xyz"', '"y"', '"zx"', "'it\\'s'", '"\\u00e9"')
TRUTHS = ("true", "false")


def _predicate() -> st.SearchStrategy[str]:
    path = st.sampled_from(PATHS)
    order = st.sampled_from(("<", "<=", ">", ">=", "=", "!="))
    ordered = st.sampled_from(NUMBERS + STRINGS)
    truth = st.sampled_from(TRUTHS)
    words = st.sampled_from(("prefix", "suffix", "contains"))
    listed = st.one_of(
        [st.lists(st.sampled_from(values), min_size=1, max_size=4) for values in (NUMBERS, STRINGS, TRUTHS)]
    )
    return st.one_of(
        st.builds(" ".join, st.tuples(path, order, ordered)),
        st.builds(" ".join, st.tuples(path, st.sampled_from(("=", "!=")), truth)),
        st.builds(" ".join, st.tuples(path, words, st.sampled_from(STRINGS))),
        st.builds(lambda path, values: f"{path} in ({', '.join(values)})", path, listed),
        st.builds("{} exists".format, path),
    )


texts = st.lists(_predicate(), min_size=1, max_size=5).map(" and ".join)
_scalars: st.SearchStrategy[object] = st.sampled_from(
    [
        None,
        True,
        False,
        0,
        1,
        2,
        2.5,
        2.25,
        3,
        -1,
        1000,
        10,
        "",
        "x",
        "xy",
        "xyz",
        "y",
        "zx",
        "yx",
        "it's",
        "é",
        [],
        {},
        [1],
    ]
)
_objects = st.fixed_dictionaries(
    {},
    optional={
        "a": _scalars,
        "b": _scalars,
        "c": st.one_of(_scalars, st.fixed_dictionaries({}, optional={"d": _scalars})),
        "odd name": _scalars,
        "e": _scalars,
    },
)
payloads = _objects.map(lambda found: json.dumps(found).encode())
