"""Files: checkpoints, Parquet tables, images; written whole or not at all."""
