"""Topics with a log as Spark sources and sinks: `format("equipoise")`, streaming and batch.

from equipoise.pipeline.topics import TopicSource
spark.dataSource.register(TopicSource)
"""

from equipoise.pipeline.topics.source import TopicSource

__all__ = ["TopicSource"]
