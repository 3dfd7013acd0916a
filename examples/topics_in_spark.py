"""Read the entries of topics with Spark, and write them to another topic, each once.

    equipoise hub --data ./data &
    redis-cli -p 6399 XADD orders.eu '*' item tea
    redis-cli -p 6399 XADD orders.us '*' item milk
    python examples/topics_in_spark.py

The query below reads all current entries of the topics `orders.*` and ends. With the same checkpoint the next run
continues after the last entry that was read. Without `availableNow` the query runs until it is stopped.
"""

from __future__ import annotations

import os
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql.functions import col

from equipoise.pipeline.topics import TopicSource

HUBS = os.environ.get("EQUIPOISE_HUBS", "127.0.0.1:6399")


def main(spark: SparkSession, hubs: str, checkpoint: str) -> None:
    spark.dataSource.register(TopicSource)
    orders = (
        spark.readStream.format("equipoise")
        .option("hubs", hubs)
        .option("pattern", "orders.*")
        .option("startingOffsets", "earliest")
        .load()
    )
    sold = orders.select(col("topic").alias("shop"), col("fields")["item"].cast("string").alias("item"))
    query = (
        sold.writeStream.format("equipoise")
        .option("hubs", hubs)
        .option("topic", "sold")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    table = spark.read.format("equipoise").option("hubs", hubs).option("topic", "sold").load()
    shops = table.groupBy(col("fields")["shop"].cast("string").alias("shop")).count().orderBy("shop")
    for shop, count in shops.collect():
        print(f"{shop}: {count} sold")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(SparkSession.builder.getOrCreate(), HUBS, folder)
