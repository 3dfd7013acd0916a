"""History as Parquet files: writing once, locking, compaction, profiles."""
