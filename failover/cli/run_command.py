"""`checkpointer zkfc run`: runs a failover controller as a daemon."""

from __future__ import annotations

import os
from pathlib import Path

import click

from hadoop_common.cli.output import PRIVATE_UMASK, conf_option
from hadoop_common.cli.service_logging import log_warnings, logging_options, set_up_logging
from hadoop_common.sd_notify import Notifier, watchdog_interval


@click.command("run")
@conf_option(required=True)
@logging_options
def command(conf_dir: Path, verbose: bool, log_config: Path | None) -> None:
    """Run next to this host's NameNode, and make it active, after fencing, if no other NameNode is active.

    The controller takes part in the election of Hadoop's controllers, with their keys (dfs.ha.*, ha.*), znodes and RPC.
    Run a controller next to each NameNode, as the NameNode's user. SIGTERM stops the controller; another NameNode with
    a running controller then becomes active.

    \b
    Example: checkpointer zkfc run --conf /etc/hadoop/conf
    Exit codes: 1 failed, 2 faulty configuration, 3 not formatted (zkfc format), 4 dfs.ha.fencing.methods is not set,
    5 dfs.ha.automatic-failover.enabled is false, 6 ZooKeeper does not answer, 7 an address cannot be used
    """
    os.umask(PRIVATE_UMASK)
    set_up_logging(verbose, log_config)
    from console.process_panels import watch_log, watch_settings
    from failover.cli.logged_in import load_and_log_in
    from failover.server import run_controller
    from hadoop_common.process_control import Control
    from site_config.shown_settings import shown_settings

    watch_log()
    settings = load_and_log_in(conf_dir)
    watch_settings(shown_settings(log_warnings(settings.configuration)))
    with Control(settings.stop_timeout) as control:
        run_controller(
            settings,
            control,
            notifier=Notifier(os.environ.get("NOTIFY_SOCKET", "")),
            heartbeat=watchdog_interval(os.environ, os.getpid()),
        )
