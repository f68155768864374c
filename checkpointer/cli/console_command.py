"""`checkpointer console`: a read-only page about several clusters."""

from __future__ import annotations

from pathlib import Path

import click

from hadoop_common.cli.output import EXISTING_FOLDER, echo, listening_options
from hadoop_common.cli.service_logging import logging_options, set_up_logging


@click.command("console")
@click.option(
    "--conf",
    "conf_dirs",
    required=True,
    multiple=True,
    type=EXISTING_FOLDER,
    help="Directory with core-site.xml and hdfs-site.xml of a cluster; repeatable.",
)
@listening_options(9871)
@logging_options
def command(conf_dirs: tuple[Path, ...], host: str, port: int, verbose: bool, log_config: Path | None) -> None:
    """Serve a read-only page about the NameNodes, JournalNodes, daemons and failover controllers of several clusters.

    The page shows the nodes that each configuration names, and the nodes in checkpointer.console.peers. The command
    queries them only while a browser shows the page. If one of several configurations is faulty, the page shows its
    fault, and shows its nodes once the configuration is repaired. Clients are not authenticated: every client that
    reaches the server by an address or name of this host can read the page. SIGTERM and SIGINT stop the server.

    \b
    Example: checkpointer console --conf /etc/hadoop/conf --conf /etc/hadoop/conf.backup
    """
    set_up_logging(verbose, log_config)
    from checkpointer.cli.console_clusters import console_clusters
    from console.blueprint import console_blueprint
    from console.cluster_page import ClusterPage
    from console.sources import ConsoleSources
    from hadoop_common.access import AccessControl
    from hadoop_common.process_control import Control
    from servlets.application import create_application
    from servlets.change_guard import ChangeGuard
    from servlets.http_server import HttpServer
    from site_config.keys import STOP_TIMEOUT

    page = ClusterPage(console_clusters(conf_dirs)).page
    blueprint = console_blueprint(ConsoleSources(page, private_panels=tuple), AccessControl())
    # this process queries the nodes with its login, so a foreign web page must not reach it under a different host name
    application = create_application(blueprint, guard=ChangeGuard(only_as=host))
    with Control(STOP_TIMEOUT.fallback) as control, HttpServer(application, host, port) as server:
        echo(f"the console is at {server.url}/")
        control.wait_for_stop()
