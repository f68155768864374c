"""The configured merge engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from hadoop_common.config_key import bound, take_bound
from hadoop_common.configuration import Configuration
from hadoop_common.configuration_errors import ConfigurationError, FaultCollector
from site_config import keys, merge_keys

_CONF = merge_keys.ENGINE_SPARK_CONF.of("")


class EngineChoice(Enum):
    """Values of `checkpoint.engine`."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Settings of the Spark engine.

    Attributes:
        master: Spark's master; "" means all cores of this machine, or the master given to `spark-submit`.
        driver_memory: heap of the driver's JVM.
        shared_storage: whether executors can access the image, the edits and the storage directory under the driver's
            paths; None means True for a local master and False for all others.
        partitions: number of parts of each large section; 0 means about one part per 32 MiB.
        conf: additional settings of Spark.
    """

    master: str = bound(merge_keys.ENGINE_SPARK_MASTER)
    driver_memory: str = bound(merge_keys.ENGINE_SPARK_DRIVER_MEMORY)
    shared_storage: bool | None = bound(merge_keys.ENGINE_SPARK_SHARED_STORAGE)
    partitions: int = bound(merge_keys.ENGINE_SPARK_PARTITIONS)
    conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The engine and its settings; `auto` selects Spark if a master is set."""

    choice: EngineChoice = EngineChoice.LOCAL
    spark: SparkSettings = SparkSettings()


def engine_settings(configuration: Configuration) -> EngineSettings:
    """Read the `checkpoint.engine` keys.

    Raises:
        ConfigurationError: names all faulty keys.
    """
    settings = configuration.with_defaults(keys.DEFAULTS)
    faults = FaultCollector()
    found = EngineSettings(
        choice=faults.take(lambda: _choice(settings), EngineChoice.LOCAL),
        spark=SparkSettings(
            conf=faults.take(lambda: _conf(settings), {}), **take_bound(SparkSettings, settings, faults)
        ),
        **take_bound(EngineSettings, settings, faults),
    )
    faults.raise_if_any()
    return found


def _conf(settings: Configuration) -> dict[str, str]:
    names = [key for key in settings.keys() if key.startswith(_CONF)]  # noqa: SIM118 - not a mapping
    if _CONF in names:
        raise ConfigurationError([settings.fault(_CONF, "lacks the name of a Spark setting")])
    return {key.removeprefix(_CONF): settings.get(key, "") for key in names}


def _choice(settings: Configuration) -> EngineChoice:
    text = merge_keys.ENGINE.read(settings)
    try:
        return EngineChoice(text)
    except ValueError:
        raise ConfigurationError(
            [settings.fault(merge_keys.ENGINE.name, "is not an engine: local, spark or auto")]
        ) from None
