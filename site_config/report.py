"""Report on a configuration: every key with its effective value and its source, and all faults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hadoop_common.config_key import ABSENT, ConfigKey, KeyStatus
from hadoop_common.configuration import Configuration, ConfigurationFault, FaultCollector
from hadoop_common.secret_values import shown_value
from site_config.addresses import Identity, identity, namenode_ids, nameservices, scoped_key
from site_config.catalogue import CATALOGUE, PREFIXES, closest, entry_of
from site_config.checkpoint_config import CheckpointConfig, Role, identity_of
from site_config.keys import DEFAULTS, HA_NAMENODES, INTERNAL_NAMESERVICES, NAMESERVICES, SHARED_EDITS_DIR

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class KeySetting:
    """A key with its configured value or its default.

    Attributes:
        name: name of the key, with the suffix for nameservice and NameNode if the file has it.
        status: supported, ignored, refused or unknown.
        value: value with variables replaced; "" if unset.
        source: the file, or `(default)`.
        alias: the deprecated name in the file, "" if the file uses `name`.
        overridden_by: the more specific key whose value applies instead, or "" if this key applies.
        reason: reason why the key is ignored or refused, or the probable spelling of an unknown key.
        default, release2_default: defaults of Hadoop 3.4 and of Hadoop 2.7; None if Hadoop 2.7 does not have the key.
    """

    name: str
    status: str
    value: str
    source: str
    alias: str = ""
    overridden_by: str = ""
    reason: str = ""
    unit: str = ""
    meaning: str = ""
    default: str = ""
    release2_default: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigReport:
    """All keys, and all faults for `role`; `warnings` name deprecated keys, overridden final keys, and a key that
    switches checkpoints off.
    """

    role: Role
    settings: tuple[KeySetting, ...]
    faults: tuple[ConfigurationFault, ...]
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return {
            "role": self.role.value,
            "valid": not self.faults,
            "keys": [_setting_dict(each) for each in self.settings],
            "faults": [each.as_dict() for each in self.faults],
            "warnings": list(self.warnings),
        }


def likely_role(configuration: Configuration) -> Role:
    """Return the likely role for a configuration: standby with HA or a shared edits directory, otherwise secondary.

    Hadoop's secondary refuses to start in HA, and a standby cannot work without shared edits.
    """
    services = nameservices(configuration)
    none = Identity()
    who = FaultCollector().take(lambda: identity(configuration), none)
    if who is not none:
        services = [who.nameservice]
    has_ha = any(namenode_ids(configuration, each) for each in services if each)
    shared = [scoped_key(configuration, SHARED_EDITS_DIR.name, each, who.own_id) for each in services or [""]]
    return Role.STANDBY if has_ha or any(each in configuration for each in shared) else Role.SECONDARY


def report(configuration: Configuration, role: Role) -> ConfigReport:
    """Check the settings of `role`, and return a report on every key of the catalogue and of the files."""
    settings = configuration.with_defaults(DEFAULTS)
    collector = FaultCollector()
    config = collector.take(lambda: CheckpointConfig.from_configuration(configuration, role), None)
    warnings = settings.warnings + ((config.switched_off,) if config is not None and config.switched_off else ())
    faulty = {fault.key: fault for fault in collector.faults}
    who = FaultCollector().take(lambda: identity_of(role, settings), Identity())
    suffixes = _suffixes(settings)
    written: dict[str, list[str]] = {}
    unknown = []
    names = settings.keys()
    for name in names:
        entry = entry_of(name, suffixes)
        if entry is not None:
            written.setdefault(entry.name, []).append(name)
        elif name.startswith(PREFIXES):
            unknown.append(_unknown(settings, name))
    rows = [
        _row(settings, entry, name, who, faulty)
        for entry in CATALOGUE
        for name in _names(settings, entry.name, written.get(entry.name, []), who)
    ]
    return ConfigReport(role, (*rows, *unknown), tuple(dict.fromkeys(collector.faults)), warnings)


def _suffixes(settings: Configuration) -> list[str]:
    """Return `NS.NN` and `NS` of every nameservice, the longer suffixes first."""
    services = [*NAMESERVICES.read(settings), *INTERNAL_NAMESERVICES.read(settings)]
    nodes = [f"{each}.{node}" for each in services for node in namenode_ids(settings, each)]
    return [*nodes, *services]


def _names(settings: Configuration, key: str, written: list[str], who: Identity) -> list[str]:
    """Return the forms of `key` that files set, and the key without a suffix if no form applies to this node."""
    in_force = scoped_key(settings, key, who.nameservice, who.own_id)
    of_each_namenode = key.endswith("-address") or key == HA_NAMENODES.name
    return written if written and (of_each_namenode or in_force in settings) else [*written, key]


def _row(
    settings: Configuration, entry: ConfigKey[Any], name: str, who: Identity, faulty: dict[str, ConfigurationFault]
) -> KeySetting:
    status, reason = _status(entry, faulty=name in faulty)
    in_force = scoped_key(settings, entry.name, who.nameservice, who.own_id)
    written = settings.written_name(name)
    value = _value(settings, name, entry.default)
    return KeySetting(
        name=name,
        status=status,
        value=value,
        source=settings.source(name),
        alias="" if written == name else written,
        # a form for another NameNode applies to that NameNode, and no key overrides this form
        overridden_by=in_force if in_force != name and in_force.startswith(f"{name}.") else "",
        reason=reason,
        unit=entry.kind.unit,
        meaning=entry.meaning,
        default=entry.default,
        release2_default=None
        if entry.release2 == ABSENT
        else entry.default
        if entry.release2 is None
        else entry.release2,
    )


def _status(entry: ConfigKey[Any], *, faulty: bool) -> tuple[str, str]:
    """Return the status of a key and the reason; a key that accepts only its default is supported while it has the
    default.
    """
    if faulty and entry.reason:
        return KeyStatus.REFUSED.value, entry.reason
    ignored = entry.status is KeyStatus.IGNORED
    return (entry.status.value, entry.reason) if ignored else (KeyStatus.SUPPORTED.value, "")


def _unknown(settings: Configuration, name: str) -> KeySetting:
    near = closest(name)
    reason = "the checkpointer does not know this key" + (f"; did you mean {near}?" if near else "")
    return KeySetting(name, UNKNOWN, _value(settings, name, ""), settings.source(name), reason=reason)


def _value(settings: Configuration, name: str, default: str) -> str:
    # the reader of the key reports circular variables as a fault
    text = FaultCollector().take(lambda: settings.get(name, default), "(variables refer to each other)")
    return shown_value(name, text) if text else ""


def _setting_dict(setting: KeySetting) -> dict[str, Any]:
    return {
        "key": setting.name,
        "status": setting.status,
        "value": setting.value,
        "source": setting.source,
        "alias": setting.alias,
        "overriddenBy": setting.overridden_by,
        "reason": setting.reason,
        "unit": setting.unit,
        "meaning": setting.meaning,
        "default": setting.default,
        "defaultHadoop2": setting.release2_default,
    }
