"""From params and data to runs and answers: stages, trainings, predictions, and the command line."""
