"""`checkpointer compile`: compile the kernels now."""

from __future__ import annotations

import click

from checkpointer.cli.output import echo, echo_json, json_option

__all__ = ["command"]


@click.command("compile")
@click.option("--first", is_flag=True, help="Only what a first merge needs; the rest is compiled when it is used.")
@json_option
def command(first: bool, as_json: bool) -> None:
    """Compile what checkpoints need, once per installation, so that none of them has to wait for it.

    Without it the first checkpoint does so, which takes it up to a minute longer. With --first, merges without
    snapshots are ready, and those with snapshots, to another layout or with sub-sections compile what they need. Run
    it as the user that the daemon runs as, or as the owner of the installation. Where nothing can be kept (see
    NUMBA_CACHE_DIR) each start compiles again.

    \b
    Example: checkpointer compile
    """
    # Importing it loads the compiler.
    from engine.warm_up import warm_up

    seconds = warm_up(first=first)
    if as_json:
        echo_json({"seconds": round(seconds, 3)})
    else:
        echo(f"compiled, or found compiled, in {seconds:.1f} s")
