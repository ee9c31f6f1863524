"""Read results, draw them, and write them as pages."""
