"""Creation of a second NameNode's storage from another NameNode (BootstrapStandby)."""

from __future__ import annotations

import logging
import shutil

from checkpointer.roles.standby.bootstrap import bootstrap
from checkpointer.roles.standby.image_fetcher import ImageFetcher
from checkpointer.roles.standby.namenodes import NameNodes
from checkpointer.roles.standby.open_edit_source import open_edit_source
from checkpointer.storage.directories import StorageDirectories
from checkpointer.storage.formatting import format_directory, make_directory
from hadoop_common.configuration import Configuration
from hadoop_common.errors import StorageError
from hadoop_common.names import VERSION
from hadoop_common.storage_info import refuse_foreign
from hadoop_common.storage_lock import StorageLock
from namenode_stub.config import StubConfig, stub_config
from site_config.checkpoint_config import CheckpointConfig, Role

_LOG = logging.getLogger(__name__)


def bootstrap_standby(configuration: Configuration, *, force: bool = False) -> int:
    """Format this NameNode's directories with another NameNode's VERSION and newest image; return the image's txid.

    The shared edits are not changed.

    Args:
        force: delete the contents of the directories.

    Raises:
        StorageError: a directory is already formatted or in use, or no NameNode provided an image.
        ConfigurationError: the configuration names no other NameNode, or no shared edits.
    """
    own = stub_config(configuration)
    for directory in own.own_directories:
        refuse_foreign(directory)
    config = CheckpointConfig.from_configuration(configuration, Role.STANDBY)
    storage = StorageDirectories(config.image_directories, permission=config.storage_permission)
    storage.lock()
    try:
        if force:
            _clear(own)
        elif storage.is_formatted():
            raise StorageError(
                f"already formatted: {', '.join(map(str, config.image_directories))}",
                hint="Specify other directories; --force deletes all their content.",
            )
        _fetch(storage, config)
        _format_edits(own, storage, config.storage_permission)
        return storage.latest_image().txid
    finally:
        storage.release()


def _fetch(storage: StorageDirectories, config: CheckpointConfig) -> None:
    nodes = NameNodes.of(config)
    images = ImageFetcher(storage, config, count=lambda size: None, fetched=lambda address, txid: None)
    try:
        source = open_edit_source(config)
        addresses = config.namenode_http_addresses
        bootstrap(storage, source, nodes.version_at, images, addresses, lambda: False)
    finally:
        nodes.close()


def _clear(own: StubConfig) -> None:
    for directory in own.own_directories:
        current = directory / "current"
        # do this first, so that the directory does not count as formatted after a crash
        (current / VERSION).unlink(missing_ok=True)
        shutil.rmtree(current, ignore_errors=True)


def _format_edits(own: StubConfig, storage: StorageDirectories, permission: int) -> None:
    """Format separate edits directories, which also need a VERSION."""
    for directory in own.own_directories:
        if directory in own.image_directories:
            continue
        make_directory(directory, permission)
        with StorageLock(directory):
            format_directory(directory, storage.storage_info(), 0, permission)
        _LOG.info("%s is formatted for edits", directory)
