"""`checkpointer compile`: compile the kernels now."""

from __future__ import annotations

import click

from hadoop_common.cli.output import echo, echo_json, json_option
from hadoop_common.cli.progress import ProgressObserver
from hadoop_common.text_layout import duration


@click.command("compile")
@click.option("--first", is_flag=True, help="Only what a first merge needs; the rest is compiled when it is used.")
@json_option
def command(first: bool, as_json: bool) -> None:
    """Compile what checkpoints need, once per installation, so that none of them has to wait for it.

    It takes one core a minute and a half, more on a busy machine, and a second or two where it was done before. Without
    it, the first checkpoint of a large namespace does so, and takes as much longer. A namespace of some thousand inodes
    does not wait: what it needs is compiled in the background. With --first, merges without snapshots are ready, and
    those with snapshots, to another layout or with sub-sections compile what they need. Run it as the user that the
    daemon runs as, or as the owner of the installation. Where nothing can be kept (see NUMBA_CACHE_DIR) each start
    compiles again.

    \b
    Example: checkpointer compile
    """
    # Importing it loads the compiler.
    from engine.warm_up import warm_up
    from image_format.compiling.mode import compiled_kernels

    count = 0

    def compiled(now: int) -> None:
        nonlocal count
        count = now
        observer.advance(now)

    with compiled_kernels(), ProgressObserver(show=not as_json) as observer:
        observer.phase("compile", None)
        seconds = warm_up(first=first, compiled=compiled)
    if as_json:
        echo_json({"seconds": round(seconds, 3), "compiled": count})
    else:
        echo(f"{count} kernels compiled in {duration(seconds)}" if count else "all kernels were compiled before")
