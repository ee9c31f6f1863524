"""Scripts for maintainers: `python -m tools.<name>` in the project's top folder."""
