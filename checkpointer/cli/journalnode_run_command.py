"""`checkpointer journalnode run`: run a JournalNode as a daemon."""

from __future__ import annotations

import os
from pathlib import Path

import click

from hadoop_common.cli.output import PRIVATE_UMASK, conf_option, load_configuration
from hadoop_common.cli.service_logging import log_warnings, logging_options, set_up_logging
from hadoop_common.sd_notify import Notifier, watchdog_interval


@click.command("run")
@conf_option(required=True)
@logging_options
def command(conf_dir: Path, verbose: bool, log_config: Path | None) -> None:
    """Run as a JournalNode, which stores the edits of NameNodes and serves them.

    The keys dfs.journalnode.* configure the node. It fetches finalized segments that it missed from the other
    JournalNodes in dfs.namenode.shared.edits.dir. It can use a directory of Hadoop's JournalNode without conversion.

    SIGTERM stops the node after its running calls; the open segment stays in progress. SIGHUP reloads the access rules.

    \b
    Example: checkpointer journalnode run --conf /etc/hadoop/conf
    Exit codes: 2 faulty configuration, 6 a directory cannot be used, 7 an address cannot be used
    """
    os.umask(PRIVATE_UMASK)
    set_up_logging(verbose, log_config)
    from console.process_panels import watch_log, watch_settings
    from hadoop_common.process_control import Control
    from journal_node.config import JournalNodeConfig
    from journal_node.process import run_journal_node
    from site_config.shown_settings import shown_settings

    watch_log()

    def configuration() -> JournalNodeConfig:
        read = load_configuration(conf_dir, warns=False)
        config = JournalNodeConfig.from_configuration(read)
        watch_settings(shown_settings(log_warnings(read)))
        return config

    config = configuration()
    if config.kerberos is not None:
        from hadoop_rpc.kerberos import log_in

        log_in(config.kerberos.login)
    with Control(config.stop_timeout) as control:
        run_journal_node(
            config,
            control,
            reload=configuration,
            notifier=Notifier(os.environ.get("NOTIFY_SOCKET", "")),
            heartbeat=watchdog_interval(os.environ, os.getpid()),
        )
