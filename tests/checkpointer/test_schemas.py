"""JSON output has the shape that docs/schemas documents, after success and after failure."""

from __future__ import annotations

import json
import re
from pathlib import Path

import fastjsonschema
import pytest

from hadoop_common.cli.output import as_failure
from journal.errors import CorruptOpError
from node_state.state import NodeState, RoleDetails, as_json
from site_config.checkpoint_config import Role
from tests.checkpointer.schemas import valid
from tests.checkpointer.secondary_support import Secondary
from tests.cli_runner import run_cli
from tests.namenode_stub.namenode_double import NamenodeDouble
from tests.site_files import write_site
from tests.tools.status_schema import FILE, schema


def test_status_schema_matches_the_state() -> None:
    assert json.loads(FILE.read_text()) == schema(), "python -m tests.tools.status_schema --write"


def test_schema_of_check_names_every_role() -> None:
    schema_of_check = json.loads((FILE.parent / "check.json").read_text())
    assert schema_of_check["properties"]["role"]["enum"] == sorted(each.value for each in Role)


def test_status_without_a_key_is_invalid() -> None:
    reported = as_json(NodeState(role="unknown", details=RoleDetails()))
    valid("status.json")(reported)
    for key in reported:
        with pytest.raises(fastjsonschema.JsonSchemaValueException):
            valid("status.json")({name: value for name, value in reported.items() if name != key})


def test_status_of_a_secondary_with_and_without_its_namenode(tmp_path: Path) -> None:
    with NamenodeDouble(tmp_path / "name") as node, Secondary.of(tmp_path, node) as secondary:
        valid("status.json")(secondary.service.status())
        secondary.checkpoint()
        made = secondary.service.status()
        valid("status.json")(made)
        node.stop()
        secondary.service.poll()
        away = secondary.service.status()
        valid("status.json")(away)
        node.start()
    assert set(made) == set(away)
    assert (away["imageTxid"], away["transactionsBehind"]) == (made["imageTxid"], None)
    assert re.search("cannot connect|closed the connection", away["error"])


@pytest.mark.parametrize(
    ("words", "code", "file"),
    [
        (("image", "info", "{root}/no"), 2, None),
        (("image", "info", "{root}/junk"), 3, "{root}/junk"),
        (("edits", "info", "{root}/junk"), 4, "{root}/junk"),
        (("merge", "{root}"), 6, None),
        (("config", "--conf", "{root}"), 2, None),
        (("checkpoint", "--conf", "{root}"), 7, None),
        (("check", "--conf", "{root}", "--role", "standby"), 3, None),
        (("merge",), 2, None),
    ],
)
@pytest.mark.parameters(8)
def test_every_failure_matches_the_schema(tmp_path: Path, words: tuple[str, ...], code: int, file: str | None) -> None:
    (tmp_path / "junk").write_bytes(b"junk" * 9)
    addresses = {"dfs.namenode.secondary.http-address": "127.0.0.1:1", "dfs.namenode.http-address": "127.0.0.1:1"}
    write_site(tmp_path, {"fs.defaultFS": "hdfs://127.0.0.1:80x0", **addresses} if words[0] == "config" else addresses)
    reported = run_cli(*(word.format(root=tmp_path) for word in words), "--json")
    answer = json.loads(reported.out)
    valid("failure.json")(answer)
    assert (reported.code, answer["code"]) == (code, code)
    assert answer["file"] == (None if file is None else file.format(root=tmp_path))
    assert answer["next"]


def test_failure_names_its_transaction() -> None:
    reported = as_failure(CorruptOpError("its checksum is wrong", file="edits_7-9", offset=20, txid=8))
    valid("failure.json")(reported)
    assert (reported["txid"], reported["file"], reported["code"]) == (8, "edits_7-9", 4)
