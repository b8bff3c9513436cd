"""`python -m molsepnorm`: the command line."""

from molsepnorm.cli import main

main(prog_name="molsepnorm")
