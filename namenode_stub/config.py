"""The stub's settings, from Hadoop's own configuration keys."""

from __future__ import annotations

from checkpointer.config import CheckpointConfig, Role
from hadoop_common.configuration import Configuration
from namenode_stub.node import StubConfig

__all__ = ["stub_config"]

_ROLL_SHARE_KEY = "dfs.namenode.edit.log.autoroll.multiplier.threshold"
_ROLL_PERIOD_KEY = "dfs.ha.log-roll.period"
_DEFAULT_ROLL_SHARE = 0.5
_DEFAULT_ROLL_PERIOD = "120s"


def stub_config(configuration: Configuration) -> StubConfig:
    """Settings of the NameNode that this configuration calls its own.

    The edit log goes to every name directory and, if set, to the shared edits directory.

    Raises:
        ConfigurationError: a value cannot be used; all faults are named at once.
    """
    config = CheckpointConfig.from_configuration(configuration, Role.STANDBY)
    shared = () if config.shared_edits_directory is None else (config.shared_edits_directory,)
    share = configuration.get_float(_ROLL_SHARE_KEY, _DEFAULT_ROLL_SHARE)
    return StubConfig(
        image_directories=tuple(config.image_directories),
        edits_directories=(*config.image_directories, *shared),
        http_address=config.http_bind_address,
        checkpoint_period=config.period,
        checkpoint_transactions=config.transactions,
        roll_transactions=max(1, int(config.transactions * share)),
        roll_period=configuration.get_time(_ROLL_PERIOD_KEY, _DEFAULT_ROLL_PERIOD),
        images_retained=config.images_retained,
        extra_edits_retained=config.extra_edits_retained,
        max_extra_segments=config.max_extra_segments,
    )
