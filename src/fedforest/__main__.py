"""Run the command line as `python -m fedforest`, without the installed script."""

from fedforest.cli.main import app_entry

app_entry()
