"""What every component of a folder must do. Components are found by `rankops.lookup`, their options by signature."""
