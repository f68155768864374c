"""`checkpointer fetch-image`: download a NameNode's newest image as a backup."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from checkpointer.cli.operator_login import log_in_as_operator
from hadoop_common.cli.output import (
    PRIVATE_UMASK,
    as_failure,
    conf_option,
    echo,
    echo_json,
    json_option,
    load_configuration,
    parsed_by,
)
from hadoop_common.cli.progress import ProgressObserver
from hadoop_common.configuration import Configuration
from hadoop_common.errors import HdfsError
from hadoop_common.process_user import process_user
from hadoop_rpc.user import USER_NAME
from site_config import keys
from site_config.addresses import parse_host_port

if TYPE_CHECKING:
    from checkpointer.backup_images.fetch import FetchOptions, StoredBackup
    from site_config.cluster import NameNodeAddress

_LATEST = "latest"
_ASK_TIMEOUT = 10.0


def _txid(text: str) -> int | None:
    if text == _LATEST:
        return None
    if not (text.isascii() and text.isdigit() and int(text) < 1 << 63):
        raise ValueError(f"is neither {_LATEST!r} nor a transaction id")
    return int(text)


def _url(text: str) -> str:
    from checkpointer.transfer.common import is_http_address

    if not is_http_address(text):
        raise ValueError("is not http://host:port")
    return text


def _rpc(text: str) -> tuple[str, int]:
    return parse_host_port(text, 8020)


@click.command("fetch-image")
@conf_option(required=False)
@click.option(
    "--from",
    "url",
    metavar="URL",
    callback=parsed_by(_url),
    help="HTTP address of one NameNode, http://host:port, instead of --conf.",
)
@click.option(
    "--rpc",
    metavar="HOST:PORT",
    callback=parsed_by(_rpc),
    help="With --from: the NameNode's RPC address, used to fetch VERSION.",
)
@click.argument("folder", metavar="DEST_DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--txid", callback=parsed_by(_txid), default=_LATEST, show_default=True, help="Transaction id of the image."
)
@click.option(
    "--keep",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Keep the newest N images in DEST_DIR; 0 keeps all.",
)
@click.option("--deep", is_flag=True, help="Check every record of the image before it is stored.")
@json_option
def command(
    conf_dir: Path | None,
    url: str | None,
    rpc: tuple[str, int] | None,
    folder: Path,
    txid: int | None,
    keep: int,
    deep: bool,
    as_json: bool,
) -> None:
    """Fetch an image from a NameNode into DEST_DIR, with its .md5 file and VERSION, and keep the newest N images.

    The command tries the NameNodes of the configuration in turn, beginning with the active NameNode. It verifies
    length, digest and frame before it renames the image to its final name. An intact image that DEST_DIR already
    contains is not fetched again. docs/operations.md describes how to restore a NameNode from the image.

    Exit code 0: DEST_DIR contains the image. 2: usage or configuration error. 3: the NameNode's image is damaged
    (--deep). 6: DEST_DIR cannot be used, or contains images of another namespace. 7: all NameNodes failed to send the
    image.

    \b
    Example: checkpointer fetch-image --conf /etc/hadoop/conf /backup/fsimage --keep 7
             checkpointer fetch-image --from http://namenode:9870 --rpc namenode:8020 /backup/fsimage
    """
    from checkpointer.backup_images.fetch import FetchOptions, fetch_image
    from checkpointer.backup_images.image_folder import ImageFolder
    from site_config.cluster import NameNodeAddress

    if (conf_dir is None) == (url is None):
        raise click.UsageError("give either --conf DIR or --from URL")
    if rpc is not None and url is None:
        raise click.UsageError("--rpc needs --from")
    os.umask(PRIVATE_UMASK)
    settings = _settings(conf_dir)
    log_in_as_operator(settings)
    options = FetchOptions(
        txid=txid,
        keep=keep,
        deep=deep,
        user=USER_NAME.read(settings) or process_user(),
        timeout=keys.IMAGE_TRANSFER_TIMEOUT.read(settings),
        bandwidth=keys.IMAGE_TRANSFER_BANDWIDTH_PER_SEC.read(settings),
    )
    sources = [NameNodeAddress(url, rpc)] if url is not None else _sources(settings, options)
    try:
        with ProgressObserver(show=not as_json) as observer, ImageFolder(folder) as shelf:
            found = fetch_image(sources, shelf, options, observer)
    except HdfsError as error:
        if as_json:
            outcome = {"fetched": False, "message": error.message, "hint": error.hint, "exitCode": error.exit_code}
            echo_json(outcome | as_failure(error))
        raise
    _show(found, as_json=as_json)


def _settings(conf_dir: Path | None) -> Configuration:
    if conf_dir is None:
        return Configuration.from_mapping({}, {}).with_defaults(keys.DEFAULTS)
    return load_configuration(conf_dir).with_defaults(keys.DEFAULTS)


def _sources(settings: Configuration, options: FetchOptions) -> list[NameNodeAddress]:
    from site_config.cluster import active_first, ask_state, namenode_addresses

    timeout = min(_ASK_TIMEOUT, options.timeout)
    return active_first(
        namenode_addresses(settings), lambda address: ask_state(address, user=options.user, timeout=timeout)
    )


def _show(found: StoredBackup, *, as_json: bool) -> None:
    if as_json:
        echo_json(
            {
                "fetched": found.fetched,
                "txid": found.txid,
                "path": found.path,
                "md5": found.md5,
                "size": found.size,
                "source": found.source,
                "version": found.version,
                "removed": found.removed,
                "notes": found.notes,
                "exitCode": 0,
            }
        )
        return
    for note in found.notes:
        echo(f"warning: {note}", err=True)
    done = f"fetched from {found.source}" if found.fetched else "already present and intact"
    echo(f"{found.path}: {done}; txid {found.txid}, {found.size} bytes, MD5 {found.md5}")
    for path in found.removed:
        echo(f"removed {path}")
