"""`checkpointer compile`: compile the kernels now."""

from __future__ import annotations

import click

from hadoop_common.cli.output import echo, echo_json, json_option
from hadoop_common.cli.progress import ProgressObserver
from hadoop_common.quantities import counted, duration


@click.command("compile")
@click.option(
    "--first",
    is_flag=True,
    help="Compile only the kernels that a first merge needs; the others are compiled at their first use.",
)
@json_option
def command(first: bool, as_json: bool) -> None:
    """Compile the kernels of checkpoints once per installation, so that checkpoints do not wait for the compiler.

    Compilation takes about 90 seconds on one idle core, but only a second or two if the kernels were compiled before.
    Without this command, the first checkpoint of a large namespace compiles them and takes that much longer. A
    checkpoint of a few thousand inodes does not wait, because its kernels are compiled in the background.

    With Spark installed, the command also compiles the kernels of reports and tables, and archives the classes of
    Spark's JVM, so that Spark starts in half the time. The first run takes about another minute and a half.

    --first compiles only the kernels of merges without snapshots, and archives no classes. Merges with snapshots, to
    another layout or with sub-sections then compile the remaining kernels when they run. Run the command as the
    daemon's user or as the owner of the installation. If the compiled code cannot be stored (see NUMBA_CACHE_DIR), each
    start compiles again.

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
    """Run the preparations of installed packages, and return their messages."""
    from importlib.metadata import entry_points

    sentences = []
    for entry in entry_points(group="checkpointer.compile"):
        observer.phase(entry.name, None)
        sentences.append(entry.load()())
    return [sentence for sentence in sentences if sentence]
