"""The documentation shows a round as the planner runs it."""

from __future__ import annotations

import re
from pathlib import Path

from equipoise.plan.planner import STEPS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "concepts" / "balancing.md"


def test_the_page_lists_the_steps_of_a_round_in_their_order() -> None:
    section = PAGE.read_text().partition("## One round")[2].partition("\n## ")[0]
    assert re.findall(r"^\d+\. (.+)$", section, re.MULTILINE) == [step.line for step in STEPS]


def test_balancing_steps_follow_the_facts_and_precede_the_clean_up() -> None:
    kinds = "".join("b" if step.is_balancing else "f" for step in STEPS)
    assert re.fullmatch("f+b+f+", kinds)
    # The steps that the page lists.
    assert [at + 1 for at, step in enumerate(STEPS) if step.is_balancing] == list(range(4, 13))
