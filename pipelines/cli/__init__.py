"""The command line. `app` lists the commands; each module has the commands of one noun, and imports inside them."""
