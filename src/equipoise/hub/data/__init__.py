"""The data path of one hub: topics, subscriptions, fan-out, sessions and slow subscribers."""
