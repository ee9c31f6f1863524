"""What every component of a folder must do. Components are found by `rankgrad.lookup`, their options by signature."""
