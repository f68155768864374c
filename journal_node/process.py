"""The JournalNode's process: its servers, signals and the service manager."""

from __future__ import annotations

import logging
from collections.abc import Callable

from hadoop_common.file_faults import as_hdfs_error, error_text
from hadoop_common.process_control import Command, Control
from hadoop_common.recurring_fault import with_next
from hadoop_common.sd_notify import Notifier
from hadoop_common.tls.reloading import reload_changed_stores
from journal_node.config import JournalNodeConfig
from journal_node.server import JournalNodeServer

_LOG = logging.getLogger(__name__)
_STATUS_SECONDS = 5.0


def run_journal_node(
    config: JournalNodeConfig,
    control: Control,
    *,
    reload: Callable[[], JournalNodeConfig],
    notifier: Notifier | None = None,
    heartbeat: float | None = None,
) -> None:
    """Run a JournalNode until `control` stops it.

    Args:
        reload: reads the configuration at SIGHUP.
        notifier: notifies the service manager when calls are accepted.
        heartbeat: seconds between two watchdog messages; None if no messages are sent.

    Raises:
        HdfsError: the node's directory or an address cannot be used.
    """
    notifier = notifier or Notifier("")
    seconds = _STATUS_SECONDS if heartbeat is None else min(heartbeat, _STATUS_SECONDS)
    with JournalNodeServer(config) as server:
        notifier.ready(server.ready().message)
        while not control.stopping():
            if control.wait(seconds) is Command.RELOAD:
                notifier.reloading()
                _reload(server, reload)
                notifier.ready()
            notifier.watchdog()
            if notifier.enabled:
                notifier.status(server.ready().message)
        _LOG.info("stopping")
        notifier.stopping()


def _reload(server: JournalNodeServer, reload: Callable[[], JournalNodeConfig]) -> None:
    reload_changed_stores()
    try:
        read = reload()
        changed = server.use_lists_of(read)
    except Exception as error:
        # Not even a bug in `reload` may end the JournalNode.
        bug = error if as_hdfs_error(error) is None else None
        fault = f"the configuration on disk is invalid; the previous configuration still applies: {error_text(error)}"
        _LOG.error(
            "%s", with_next(fault, "Correct the configuration, then reload it; a restart would fail."), exc_info=bug
        )
        return
    _LOG.info("the access lists were reloaded: %s", ", ".join(changed) or "nothing changed")
    if server.needs_restart(read):
        _LOG.warning("other changed settings take effect only after a restart")
