"""`checkpointer journalnode format`: format the journals of a new or replaced JournalNode."""

from __future__ import annotations

from pathlib import Path

import click

from hadoop_common.cli.output import conf_option, echo, echo_json, json_option, load_configuration


@click.command("format")
@conf_option(required=True)
@click.option(
    "--from-peers",
    "source",
    flag_value="peers",
    help="Request the namespace from the other JournalNodes (the checkpointer's, or Hadoop 3.5).",
)
@click.option(
    "--from-namenode",
    "source",
    flag_value="namenode",
    help="Request the namespace from a NameNode; for older JournalNodes.",
)
@click.option(
    "--journal",
    "only",
    metavar="ID",
    help="Format only this journal (default: all journals of dfs.namenode.shared.edits.dir).",
)
@json_option
def command(conf_dir: Path, source: str | None, only: str | None, as_json: bool) -> None:
    """Format the journals of dfs.namenode.shared.edits.dir on this node with the namespace of the other JournalNodes.

    A formatted journal is not changed. A journal with a damaged VERSION or damaged epochs is first moved to `damaged`
    in its folder, even while the JournalNode serves its other journals. At least a majority of all JournalNodes must
    answer, because the node must keep promises that it may have made before it lost its disk. The running JournalNode
    then fetches the finalized segments. It participates in recoveries once a new segment begins. With
    dfs.journalnode.enable.sync.format, a running JournalNode formats its journals automatically.

    \b
    Example: checkpointer journalnode format --conf /etc/hadoop/conf --from-peers
    Exit codes: 0 formatted now or before; 2 faulty configuration, 6 directory unusable, 7 too few answers
    """
    if source is None:
        raise click.UsageError("Specify the source of the namespace: --from-peers or --from-namenode.")
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
        echo(f"{name}: {what or 'was already formatted and is not changed'}")
