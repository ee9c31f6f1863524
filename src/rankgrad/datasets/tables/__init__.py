"""How a table of one's own becomes a dataset."""
