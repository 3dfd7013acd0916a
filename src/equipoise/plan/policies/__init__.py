"""The steps that the planner is composed of, one file each, and the baselines."""

from equipoise.plan.policies.hashing import ConsistentHashing
from equipoise.plan.policies.static import Static
from equipoise.plan.policies.topic_manager import AllPairs, TopicManager

__all__ = ["AllPairs", "ConsistentHashing", "Static", "TopicManager"]
