"""The JournalNode's process: signals and the service manager around its servers."""

from __future__ import annotations

import logging

from checkpointer.daemon.control import Command, Control
from checkpointer.journal_node.config import JournalNodeConfig
from checkpointer.journal_node.server import JournalNodeServer
from hadoop_common.sd_notify import Notifier
from hadoop_common.tls.process import look_at_files

_LOG = logging.getLogger(__name__)
_STATUS_SECONDS = 5.0


def run_journal_node(
    config: JournalNodeConfig,
    control: Control,
    *,
    notifier: Notifier | None = None,
    heartbeat: float | None = None,
) -> None:
    """Run a JournalNode until `control` says stop.

    Args:
        notifier: the service manager, told when calls are taken.
        heartbeat: seconds between two signs of life to it; None where it wants none.

    Raises:
        HdfsError: its directory or an address cannot be used.
    """
    notifier = notifier or Notifier("")
    seconds = _STATUS_SECONDS if heartbeat is None else min(heartbeat, _STATUS_SECONDS)
    with JournalNodeServer(config) as server:
        notifier.ready(server.ready().message)
        while not control.stopping():
            if control.wait(seconds) is Command.RELOAD:
                look_at_files()
                _LOG.warning(
                    "but for its stores of TLS, a JournalNode reads its configuration at the start only; restart it"
                )
            notifier.watchdog()
            if notifier.enabled:
                notifier.status(server.ready().message)
        _LOG.info("stopping")
        notifier.stopping()
