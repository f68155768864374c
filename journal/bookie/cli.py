"""`checkpointer bookie`: a bookie for development and tests."""

from __future__ import annotations

import logging
import signal
import threading
from contextlib import ExitStack
from pathlib import Path

import click

from hadoop_common.addresses import host_port
from hadoop_common.cli.output import FiniteRange, echo
from hadoop_common.zookeeper.session import ZooKeeperAddress

# end of the line that a bookie prints once clients find it in ZooKeeper
RUNNING = "is running, for development and tests only"


@click.group("bookie")
def command() -> None:
    """Run a bookie only for development and tests; it lacks compaction, re-replication and encryption."""


@command.command("run")
@click.option("--dir", "directory", type=click.Path(path_type=Path), required=True, help="Directory of the journal.")
@click.option("--zookeeper", "hosts", required=True, metavar="HOST:PORT,…", help="The ZooKeeper servers.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to bind to and to register.")
@click.option("--port", type=click.IntRange(0, 65535), default=3181, show_default=True, help="0 chooses a free port.")
@click.option("--ledgers", "root", default="/ledgers", show_default=True, help="Root znode of the ledgers.")
@click.option(
    "--layout",
    type=click.Choice(["flat", "hierarchical"]),
    default="flat",
    show_default=True,
    help="Layout of a new root; Hadoop's journal expects flat.",
)
@click.option("--session-timeout", type=FiniteRange(min=0.1), default=10.0, show_default=True, help="Seconds.")
@click.option("--reserve", type=click.IntRange(0), default=64, show_default=True, help="MB of disk space to keep free.")
def run(
    directory: Path, hosts: str, host: str, port: int, root: str, layout: str, session_timeout: float, reserve: int
) -> None:
    """Run a bookie for clients of BookKeeper 4.2 to 4.17, with protocols v2 and v3.

    Use the bookie only for development and tests: its only journal never shrinks, and lost entries are not replicated
    again. The bookie becomes read-only when its disk is full. SIGTERM stops the bookie, and even a kill does not lose
    acknowledged entries.

    \b
    Example: checkpointer bookie run --dir /tmp/bookie --zookeeper localhost:2181

    Exit codes: 2 usage error, 4 a damaged journal, 6 the directory or address cannot be used, 7 ZooKeeper is
    unavailable
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("kazoo").setLevel(logging.ERROR)
    from journal.bookie.bookie import Bookie, storage_fault
    from journal.bookie.registration import BookieRegistration, check_cookie, format_ledgers
    from journal.bookie.server import BookieServer
    from journal.bookkeeper.ledger_paths import LedgerManager
    from journal.bookkeeper.zookeeper import JournalZNodes

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    turned: list[BookieRegistration] = []
    with ExitStack() as stack:
        try:
            bookie = Bookie(
                directory.absolute(),
                reserve=reserve << 20,
                changed=lambda writable: turned[0].set_writable(writable) if turned else None,
            )
            stack.callback(bookie.close)
            server = BookieServer(bookie)
            address = server.listen(host, port)
        except OSError as fault:
            raise storage_fault(directory, fault) from fault
        stack.callback(server.stop)
        bookie_id = host_port(*address)
        znodes = JournalZNodes(ZooKeeperAddress(hosts, session_timeout, named_by="--zookeeper"))
        stack.callback(znodes.close)
        format_ledgers(znodes, root, LedgerManager.FLAT if layout == "flat" else LedgerManager.HIERARCHICAL)
        check_cookie(znodes, root, bookie_id, directory.absolute())
        server.start()
        registration = BookieRegistration(znodes, root, bookie_id, address)
        registration.set_writable(bookie.writable)
        registration.start()
        stack.callback(registration.stop)
        turned.append(registration)
        echo(f"bookie {bookie_id} {RUNNING}")
        while not stop.wait(0.5):
            if bookie.failure is not None:
                raise storage_fault(directory, bookie.failure)
