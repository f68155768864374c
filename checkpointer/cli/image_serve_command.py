"""`checkpointer image serve`: serve an fsimage over WebHDFS."""

from __future__ import annotations

from pathlib import Path

import click

from hadoop_common.cli.output import EXISTING_FILE, echo, listening_options
from hadoop_common.cli.service_logging import logging_options, set_up_logging
from image_format.memory_limit import MemoryLimit
from image_tools.cli.image_file import open_image
from image_tools.cli.memory_options import memory_options


@click.command("serve")
@click.argument("path", metavar="FSIMAGE", type=EXISTING_FILE)
@listening_options(5978)
@memory_options("the index", configured=False)
@logging_options
def command(
    path: Path, host: str, port: int, memory: int | None, spill_dir: Path | None, verbose: bool, log_config: Path | None
) -> None:
    """Serve the current tree of an image as read-only WebHDFS, as `hdfs oiv -p Web` does.

    Clients are not authenticated: every client that reaches the address can read all names, owners and attributes.
    SIGTERM and SIGINT stop the server.

    \b
    Examples:
      checkpointer image serve /data/nn/current/fsimage_0000000000000000042
      hdfs dfs -ls webhdfs://127.0.0.1:5978/
    """
    set_up_logging(verbose, log_config)
    from hadoop_common.process_control import Control
    from image_tools.browse import ImageBrowser
    from servlets.application import create_application
    from servlets.http_server import HttpServer
    from servlets.webhdfs import ImageSource, webhdfs_blueprint
    from site_config.keys import STOP_TIMEOUT

    with Control(STOP_TIMEOUT.fallback) as control, open_image(path, spool_dir=spill_dir) as image:
        browser = ImageBrowser(image, MemoryLimit(memory, spill_dir).allocator())
        with HttpServer(create_application(webhdfs_blueprint(ImageSource(browser))), host, port) as server:
            echo(f"serving {path} at {server.url.replace('http:', 'webhdfs:', 1)}/")
            control.wait_for_stop()
