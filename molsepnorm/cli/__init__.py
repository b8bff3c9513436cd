"""The command line. Each command parses, calls one function of the library, and prints."""

from molsepnorm.cli.main import main

__all__ = ["main"]
