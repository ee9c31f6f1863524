"""Run stages: start them, follow their progress, and check that their inputs do not change."""
