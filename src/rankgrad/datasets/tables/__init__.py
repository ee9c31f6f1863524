"""Turn your own table into a dataset."""
