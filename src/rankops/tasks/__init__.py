"""Tasks, one a file: what is predicted, trained, selected and scored."""
