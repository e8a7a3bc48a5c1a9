"""`python -m opd` is `opd`."""

from opd.cli.main import main

main()
