"""Which engine makes checkpoints, as configured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from checkpointer.config.keys import DEFAULTS
from hadoop_common.configuration import Configuration
from hadoop_common.configuration_errors import ConfigurationError, FaultCollector

__all__ = ["EngineChoice", "EngineSettings", "SparkSettings", "engine_settings"]

_KEY = "checkpoint.engine"
_CONF = f"{_KEY}.spark.conf."
_LEAST_MEMORY = 512 << 20


class EngineChoice(Enum):
    """Values of `checkpoint.engine`."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How the Spark engine runs.

    Attributes:
        master: "" for all cores of this machine, or what `spark-submit` was told.
        driver_memory: heap of the driver's JVM.
        shared_storage: whether executors see image, edits and storage directory under the driver's paths; None for
            yes with a local master and no with any other.
        partitions: parts that each large section is merged in, 0 for about one for each 32 MiB.
        conf: further settings of Spark's.
    """

    master: str = ""
    driver_memory: str = "1g"
    shared_storage: bool | None = None
    partitions: int = 0
    conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Which engine, and from what image size on in bytes `auto` takes Spark."""

    choice: EngineChoice = EngineChoice.LOCAL
    spark_from: int = int(DEFAULTS[f"{_KEY}.spark.min-size"])
    spark: SparkSettings = SparkSettings()


def engine_settings(configuration: Configuration) -> EngineSettings:
    """What the `checkpoint.engine` keys say.

    Raises:
        ConfigurationError: keys hold no value that makes sense; it names all of them.
    """
    settings = configuration.with_defaults(DEFAULTS)
    faults = FaultCollector()
    found = EngineSettings(
        faults.take(lambda: _choice(settings), EngineChoice.LOCAL),
        faults.take(lambda: settings.get_size(f"{_KEY}.spark.min-size"), 0),
        SparkSettings(
            master=faults.take(lambda: settings.get(f"{_KEY}.spark.master", ""), ""),
            driver_memory=faults.take(lambda: _memory(settings, f"{_KEY}.spark.driver-memory"), ""),
            shared_storage=faults.take(lambda: _switch(settings, f"{_KEY}.spark.shared-storage"), None),
            partitions=faults.take(lambda: _partitions(settings, f"{_KEY}.spark.partitions"), 0),
            conf=faults.take(lambda: _conf(settings), {}),
        ),
    )
    faults.raise_if_any()
    return found


def _conf(settings: Configuration) -> dict[str, str]:
    keys = [key for key in settings.keys() if key.startswith(_CONF)]  # noqa: SIM118 - no mapping
    if _CONF in keys:
        raise ConfigurationError([settings.fault(_CONF, "names no setting of Spark's")])
    return {key.removeprefix(_CONF): settings.get(key, "") for key in keys}


def _memory(settings: Configuration, key: str) -> str:
    if settings.get_size(key) < _LEAST_MEMORY:
        raise ConfigurationError([settings.fault(key, "must be at least 512m, less does not start Spark")])
    return settings.get(key, "")


def _choice(settings: Configuration) -> EngineChoice:
    text = settings.get(_KEY, "")
    try:
        return EngineChoice(text)
    except ValueError:
        raise ConfigurationError([settings.fault(_KEY, "is no engine: local, spark or auto")]) from None


def _switch(settings: Configuration, key: str) -> bool | None:
    return settings.get_bool(key) if settings.get(key, "") else None


def _partitions(settings: Configuration, key: str) -> int:
    count = settings.get_int(key)
    if count < 0:
        raise ConfigurationError([settings.fault(key, "must not be negative")])
    return count
