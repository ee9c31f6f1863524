"""`python -m pipelines.cli` in a checkout's top folder: the command line, without the console command."""

from pipelines.cli.app import app

app(prog_name="rankops")
