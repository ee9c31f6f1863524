"""Files: checkpoints, Parquet tables, and images; written completely or not at all."""
