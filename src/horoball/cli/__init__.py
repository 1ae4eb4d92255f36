"""The command line: `horoball --help`."""

from horoball.cli import models, pictures
from horoball.cli.console import app

__all__ = ["app", "models", "pictures"]
