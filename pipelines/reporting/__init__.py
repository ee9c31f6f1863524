"""Results: read, drawn, and written as pages."""
