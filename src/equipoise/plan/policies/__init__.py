"""Baseline policies, to compare the planner with."""

from equipoise.plan.policies.baselines import ConsistentHashing, Static
from equipoise.plan.policies.topic_manager import AllPairs, TopicManager

__all__ = ["AllPairs", "ConsistentHashing", "Static", "TopicManager"]
