"""The command line: `horoball --help`."""

from horoball.cli import graphs, models, pictures, reproduce
from horoball.cli.console import app

__all__ = ["app", "graphs", "models", "pictures", "reproduce"]
