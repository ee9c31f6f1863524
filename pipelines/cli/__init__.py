"""The command line. `app` lists the commands; each module has those of one noun, and imports inside them."""
