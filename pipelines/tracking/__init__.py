"""MLflow: runs, registered models and the gate. Only this package imports mlflow, and what MLflow runs (serving)."""
