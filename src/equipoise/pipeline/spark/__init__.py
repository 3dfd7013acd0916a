"""Starting Spark: a thin SPARK_HOME, an archive of classes, the session."""
