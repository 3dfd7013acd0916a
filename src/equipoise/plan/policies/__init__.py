"""The steps that the planner is composed of, one file each, and the baselines."""

from equipoise.plan.policies.baselines import ConsistentHashing, Static
from equipoise.plan.policies.topic_manager import AllPairs, TopicManager

__all__ = ["AllPairs", "ConsistentHashing", "Static", "TopicManager"]
