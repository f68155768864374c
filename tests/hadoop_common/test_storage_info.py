from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_common.exit_codes import ExitCode
from hadoop_common.properties import format_properties, parse_properties
from hadoop_common.storage_info import (
    JOURNAL_NODE,
    ForeignDirectoryError,
    StorageInfo,
    VersionFileError,
    format_version,
    parse_version,
)

RECORDED = Path(__file__).parents[1] / "recorded"
NOW = datetime(2026, 11, 21, 2, 20, 32, tzinfo=UTC)
INFO = StorageInfo(-63, 1686143374, 0, "CID-62f7", "BP-877915329-127.0.0.1-1795227629035")

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INFOS = st.builds(StorageInfo, INT32, INT32, st.integers(-(1 << 63), (1 << 63) - 1), TEXT, TEXT)


@given(INFOS)
def test_version_round_trips(info: StorageInfo) -> None:
    assert parse_version(format_version(info, NOW), "VERSION") == info


@given(st.dictionaries(TEXT, TEXT))
def test_properties_round_trip(values: dict[str, str]) -> None:
    assert parse_properties(format_properties(values, NOW)) == values


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(VersionFileError):
        parse_version(data, "VERSION")


def test_first_line_is_the_date() -> None:
    assert format_version(INFO, NOW).startswith(b"#Sat Nov 21 02:20:32 UTC 2026\n")


def test_journal_node_has_no_block_pool() -> None:
    info = StorageInfo(-63, 1, 0, "CID", storage_type=JOURNAL_NODE)
    text = format_version(info, NOW)
    assert b"blockpoolID" not in text
    assert parse_version(text, "VERSION", of=(JOURNAL_NODE,)) == info


def test_storage_type_is_checked_first() -> None:
    for kind in ("DATA_NODE", JOURNAL_NODE):
        with pytest.raises(ForeignDirectoryError, match=f"VERSION belongs to a {kind}, not to a NAME_NODE") as caught:
            parse_version(f"storageType={kind}\n".encode(), "VERSION")
        assert "Copy" not in caught.value.hint


def test_colon_string_of_storage_info() -> None:
    assert INFO.colon_string() == "-63:1686143374:0:CID-62f7"


def test_properties_in_java_syntax_are_read() -> None:
    text = rb"""#comment
! another
a = 1
b:2
 c 3
d\ e=f\
   g
path=C\:\\x
umlaut=\u00e4
empty
"""
    assert parse_properties(text) == {
        "a": "1",
        "b": "2",
        "c": "3",
        "d e": "fg",
        "path": "C:\\x",
        "umlaut": "ä",
        "empty": "",
    }


@pytest.mark.parametrize("key", ["layoutVersion", "namespaceID", "cTime", "clusterID", "storageType", "blockpoolID"])
def test_missing_key_is_reported(key: str) -> None:
    lines = [line for line in format_version(INFO, NOW).splitlines() if not line.startswith(key.encode())]
    with pytest.raises(VersionFileError, match=f"dir/VERSION: {key} is missing") as caught:
        parse_version(b"\n".join(lines), "dir/VERSION")
    assert caught.value.exit_code == ExitCode.STORAGE


@pytest.mark.parametrize("value", ["", "x", "1_0", "\u0661", "1e3", str(1 << 31)])
def test_invalid_number_is_refused(value: str) -> None:
    values = {**parse_properties(format_version(INFO, NOW)), "namespaceID": value}
    with pytest.raises(VersionFileError, match=r"namespaceID=.* is not a 32-bit integer"):
        parse_version(format_properties(values, NOW), "VERSION")


def test_a_malformed_escape_is_refused() -> None:
    with pytest.raises(VersionFileError, match="malformed escape"):
        parse_version(b"clusterID=\\u12", "VERSION")


@pytest.mark.recorded
def test_recorded_versions_are_read() -> None:
    paths = sorted(RECORDED.glob("*/*/before/VERSION"))
    assert paths
    for path in paths:
        info = parse_version(path.read_bytes(), str(path))
        assert -67 <= info.layout_version <= -56
        assert info.cluster_id.startswith("CID-")
        assert info.blockpool_id.startswith("BP-")
