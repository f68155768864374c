"""The addresses at which `checkpointer checkpoint` searches for the daemon."""

from __future__ import annotations

import pytest

from checkpointer.daemon.daemon_address import daemon_addresses
from hadoop_common.configuration import Configuration, ConfigurationError
from site_config.checkpoint_config import Role

SECONDARY = "dfs.namenode.secondary.http-address"
BACKUP = "dfs.namenode.backup.http-address"
SINGLE = {"fs.defaultFS": "hdfs://127.0.0.1:1", "hadoop.tmp.dir": "/nowhere"}
HA = {
    "dfs.nameservices": "ns",
    "dfs.ha.namenodes.ns": "nn1,nn2",
    "dfs.namenode.rpc-address.ns.nn1": "127.0.0.1:1",
    "dfs.namenode.rpc-address.ns.nn2": "127.0.0.1:2",
    "dfs.namenode.shared.edits.dir": "/shared",
    "hadoop.tmp.dir": "/nowhere",
}


def candidates(values: dict[str, str], role: Role | None = None) -> dict[str, Role]:
    return dict(daemon_addresses(Configuration.from_mapping(values, {"USER": "hdfs"}), role).urls)


def test_candidates_without_ha_are_secondary_and_backup() -> None:
    assert list(candidates({**SINGLE, SECONDARY: "127.0.0.1:7"}).items()) == [
        ("http://127.0.0.1:7", Role.SECONDARY),
        ("http://127.0.0.1:50105", Role.BACKUP),
    ]


def test_first_candidate_with_ha_is_the_standby() -> None:
    values = {**HA, "dfs.ha.namenode.id": "nn2", "dfs.namenode.http-address.ns.nn2": "host2:9870"}
    assert next(iter(candidates(values).items())) == ("http://host2:9870", Role.STANDBY)


def test_given_role_is_the_only_candidate() -> None:
    assert candidates({**SINGLE, BACKUP: "[::]:8"}, Role.BACKUP) == {"http://[::1]:8": Role.BACKUP}


@pytest.mark.parametrize(
    ("values", "role", "urls", "fault"),
    [
        # a fault of every role
        (
            {**SINGLE, "dfs.namenode.checkpoint.period": "soon"},
            None,
            ["http://127.0.0.1:9868", "http://127.0.0.1:50105"],
            "dfs.namenode.checkpoint.period",
        ),
        ({**HA, "dfs.namenode.checkpoint.txns": "0"}, None, ["http://127.0.0.1:9868"], "dfs.namenode.checkpoint.txns"),
        # a standby needs shared edits
        (SINGLE, Role.STANDBY, ["http://127.0.0.1:9868"], "dfs.namenode.shared.edits.dir"),
        # the daemon was started before the cluster had HA
        (HA, Role.SECONDARY, ["http://127.0.0.1:9868"], "dfs.ha.namenodes.ns"),
    ],
)
def test_addresses_are_known_although_other_keys_are_faulty(
    values: dict[str, str], role: Role | None, urls: list[str], fault: str
) -> None:
    found = daemon_addresses(Configuration.from_mapping(values, {"USER": "hdfs"}), role)
    assert list(found.urls) == urls
    assert [each.key for each in found.faults] == [fault]


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({**SINGLE, SECONDARY: "host:port"}, SECONDARY),
        ({**HA, "dfs.ha.namenode.id": "nn3"}, "dfs.ha.namenode.id"),
        ({**HA, "dfs.nameservice.id": "other"}, "dfs.nameservice.id"),
    ],
)
def test_faulty_address_or_identity_is_an_error(values: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigurationError, match=key.replace(".", r"\.")):
        candidates({**values, "dfs.namenode.checkpoint.period": "soon"})
