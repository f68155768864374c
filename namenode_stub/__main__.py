"""`namenode-stub`: format storage, run the active NameNode stub."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

import click

from hadoop_common.configuration import Configuration
from hadoop_common.errors import HdfsError
from namenode_stub.config import stub_config
from namenode_stub.formatting import format_storage, new_storage_info
from namenode_stub.node import NameNodeStub

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_DEFAULT_LAYOUT = -67


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """A small active NameNode that writes real Hadoop bytes."""


_conf = click.option(
    "--conf",
    "conf_dir",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Directory with core-site.xml and hdfs-site.xml.",
)


def _load(conf_dir: Path) -> Configuration:
    return Configuration.load(conf_dir, environment=dict(os.environ))


@cli.command("format")
@_conf
@click.option(
    "--layout",
    default=_DEFAULT_LAYOUT,
    show_default=True,
    help="Layout version, -60 to -67; -63 is that of Hadoop 2.7.",
)
def format_command(conf_dir: Path, layout: int) -> None:
    """Make new storage directories with an empty namespace.

    \b
    Example: namenode-stub format --conf /etc/hadoop/conf
    """
    config = stub_config(_load(conf_dir))
    info = new_storage_info(layout)
    format_storage(list(config.image_directories), list(config.edits_directories), info)
    click.echo(f"formatted, cluster {info.cluster_id}")


@cli.command("run")
@_conf
def run(conf_dir: Path) -> None:
    """Run until SIGTERM: load image and edits, serve the namespace over RPC and HTTP, and take images.

    RPC is served at dfs.namenode.rpc-address, or at the host of fs.defaultFS; Hadoop's clients and checkpointers
    work with it, as far as names go: there are no DataNodes. Permissions are kept, but not enforced.

    \b
    Example: namenode-stub run --conf /etc/hadoop/conf
    """
    logging.basicConfig(level=logging.INFO, format=_FORMAT, stream=sys.stderr)
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    with NameNodeStub(stub_config(_load(conf_dir))):
        stopping.wait()


def main() -> None:
    """Entry point; a known error is one line and its exit code."""
    try:
        cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except HdfsError as error:
        click.echo(f"namenode-stub: {error.message}", err=True)
        if error.hint:
            click.echo(f"  next: {error.hint}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
