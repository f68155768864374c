"""Entry point of `python -m checkpointer`, which is the same as the command `checkpointer`."""

from checkpointer.cli import main

main()
