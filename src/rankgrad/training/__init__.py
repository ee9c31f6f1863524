"""Training: the loop, the objective, where to compute."""
