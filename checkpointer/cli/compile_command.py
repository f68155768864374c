"""`checkpointer compile`: compile the kernels now."""

from __future__ import annotations

import click

from hadoop_common.cli.output import echo, echo_json, json_option
from hadoop_common.cli.progress import ProgressObserver
from hadoop_common.quantities import counted, duration


@click.command("compile")
@click.option("--first", is_flag=True, help="Compile only what a first merge needs, and the rest at its first use.")
@json_option
def command(first: bool, as_json: bool) -> None:
    """Compile the kernels of checkpoints, once per installation, so that checkpoints need not wait for the compiler.

    This takes one core about 90 seconds, more on a busy machine, and a second or two if the kernels were compiled
    before. Otherwise the first checkpoint of a large namespace compiles them, and takes that much longer. A namespace
    of a few thousand inodes does not wait, because its kernels are compiled in the background.

    With Spark installed, the command also compiles the kernels of reports and tables, and archives the classes of
    Spark's JVM. This takes about a minute and a half once. Spark then starts in half the time.

    With --first, merges without snapshots are ready. Merges with snapshots, to another layout or with sub-sections
    compile the rest when they run, and no classes are archived. Run the command as the daemon's user or as the owner of
    the installation. If the compiled code cannot be stored (see NUMBA_CACHE_DIR), each start compiles again.

    \b
    Example: checkpointer compile
    """
    # this import loads the compiler
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
        further = [] if first else _prepare_packages(observer)
    if as_json:
        echo_json({"seconds": round(seconds, 3), "compiled": count})
    else:
        done = f"{counted(count, 'kernel')} compiled in {duration(seconds)}"
        echo(done if count else "all kernels are already compiled")
        for sentence in further:
            echo(sentence)


def _prepare_packages(observer: ProgressObserver) -> list[str]:
    """Let installed packages prepare their own start; return their messages."""
    from importlib.metadata import entry_points

    sentences = []
    for entry in entry_points(group="checkpointer.compile"):
        observer.phase(entry.name, None)
        sentences.append(entry.load()())
    return [sentence for sentence in sentences if sentence]
