"""Prefect flows for the stages in `dvc.yaml`, for incoming data, and for registered models."""
