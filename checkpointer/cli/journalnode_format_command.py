"""`checkpointer journalnode format`: a new or wiped node takes its journals' namespace from elsewhere."""

from __future__ import annotations

from pathlib import Path

import click

from hadoop_common.cli.output import conf_option, echo, echo_json, json_option, load_configuration


@click.command("format")
@conf_option(required=True)
@click.option(
    "--from-peers", "source", flag_value="peers", help="As the other JournalNodes report (ours, or Hadoop 3.5)."
)
@click.option("--from-namenode", "source", flag_value="namenode", help="As a NameNode reports; for older JournalNodes.")
@click.option(
    "--journal", "only", metavar="ID", help="This journal only (default: all of dfs.namenode.shared.edits.dir)."
)
@json_option
def command(conf_dir: Path, source: str | None, only: str | None, as_json: bool) -> None:
    """Begin the journals of dfs.namenode.shared.edits.dir on this node, as the other JournalNodes have them.

    A journal that is formatted already is left as it is. One whose VERSION or epochs are damaged is moved to
    `damaged` in its folder first, also while the JournalNode serves its other journals. The others of its
    JournalNodes have to answer, a majority of all at least: the node has to keep promises that it may have made
    before it was wiped. It then fetches finalized segments as it runs, and takes part in recoveries once a new
    segment begins. A running JournalNode does the same by itself where dfs.journalnode.enable.sync.format is set.

    \b
    Example: checkpointer journalnode format --conf /etc/hadoop/conf --from-peers
    Exit codes: 0 formatted, or was already; 2 faulty configuration, 6 directory unusable, 7 too few answers
    """
    if source is None:
        raise click.UsageError("Say where the namespace is taken from: --from-peers or --from-namenode.")
    from hadoop_rpc.kerberos import log_in
    from journal_node.config import JournalNodeConfig
    from journal_node.formatting import format_journals, namespace_of_namenode

    configuration = load_configuration(conf_dir)
    config = JournalNodeConfig.from_configuration(configuration)
    if config.kerberos is not None:
        log_in(config.kerberos.login)
    namespace = (
        (lambda nameservice: namespace_of_namenode(configuration, nameservice)) if source == "namenode" else None
    )
    formatted = format_journals(config, only=only, namespace=namespace)
    if as_json:
        echo_json({name: what or "was formatted" for name, what in formatted.items()})
        return
    for name, what in formatted.items():
        echo(f"{name}: {what or 'was formatted already, nothing is changed'}")
