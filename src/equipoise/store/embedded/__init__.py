"""A ZooKeeper from the jars that PySpark ships, as a child process."""
