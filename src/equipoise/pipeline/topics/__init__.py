"""Topics that have a log, for Spark: `spark.readStream.format("equipoise")` and `writeStream`, and their batch kin.

from equipoise.pipeline.topics import TopicSource
spark.dataSource.register(TopicSource)
"""

from equipoise.pipeline.topics.source import TopicSource

__all__ = ["TopicSource"]
