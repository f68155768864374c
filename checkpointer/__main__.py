"""Entry point of `python -m checkpointer`, which is equivalent to the `checkpointer` command."""

from checkpointer.cli import main

main()
