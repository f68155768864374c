"""`python -m checkpointer` is the command `checkpointer`."""

from checkpointer.cli import main

main()
