"""`checkpointer console`: a read-only page about several clusters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hadoop_common.cli.output import EXISTING_FOLDER, echo, listening_options, load_configuration
from hadoop_common.cli.service_logging import logging_options, set_up_logging

if TYPE_CHECKING:
    from console.cluster_page import PeerAnswer


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
    queries them only while a browser shows the page. Clients are not authenticated: every client that reaches the
    server by an address or name of this host can read the page. SIGTERM and SIGINT stop the server.

    \b
    Example: checkpointer console --conf /etc/hadoop/conf --conf /etc/hadoop/conf.backup
    """
    set_up_logging(verbose, log_config)
    from checkpointer.cli.operator_login import log_in_as_operator
    from console.blueprint import console_blueprint
    from console.cluster_page import ClusterPage
    from console.sources import ConsoleSources
    from hadoop_common.access import AccessControl
    from hadoop_common.process_control import Control
    from servlets.application import create_application
    from servlets.change_guard import ChangeGuard
    from servlets.http_server import HttpServer
    from site_config.keys import STOP_TIMEOUT

    clusters = dict(_cluster(conf_dir) for conf_dir in conf_dirs)
    log_in_as_operator(load_configuration(conf_dirs[0]))
    blueprint = console_blueprint(ConsoleSources(ClusterPage(clusters).page, private_panels=tuple), AccessControl())
    # this process queries the nodes with its login, so a foreign web page must not reach it under a different host name
    application = create_application(blueprint, guard=ChangeGuard(only_as=host))
    with Control(STOP_TIMEOUT.fallback) as control, HttpServer(application, host, port) as server:
        echo(f"the console is at {server.url}/")
        control.wait_for_stop()


def _cluster(conf_dir: Path) -> tuple[str, Callable[[], Sequence[PeerAnswer]]]:
    """Return the name of a cluster and the function that queries its nodes.

    Raises:
        ConfigurationError: the configuration does not name a cluster.
    """
    from checkpointer.checks.ask_peers import ask_peers, peers_of
    from site_config.checkpoint_config import CheckpointConfig
    from site_config.report import likely_role

    configuration = load_configuration(conf_dir)
    role = likely_role(configuration)
    peers = peers_of(configuration, role)
    name = CheckpointConfig.from_configuration(configuration, role).nameservice or peers[0].url.partition("://")[2]
    return f"{name} ({conf_dir})", partial(ask_peers, peers)
