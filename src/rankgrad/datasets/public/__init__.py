"""What datasets that are read from disk share."""
