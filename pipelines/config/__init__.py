"""What params.yaml may hold."""
