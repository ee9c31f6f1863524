"""Prefect flows over the graph that `dvc.yaml` defines, and over what comes in and what is registered."""
