"""Recognition of files by their first bytes."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_common.file_kind import HEAD_BYTES, file_kind

RECORDED = Path(__file__).parents[1] / "recorded" / "hadoop-2.7.3" / "renames"


def zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a", "b")
    return out.getvalue()


def tarred() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a"))
    return out.getvalue()


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"", "empty"),
        (next((RECORDED / "before").glob("fsimage_" + "?" * 19)).read_bytes(), "an fsimage"),
        (next((RECORDED / "before").glob("edits_*")).read_bytes(), "an edit log segment of layout -63"),
        (next((RECORDED / "before").glob("*.md5")).read_bytes(), "an .md5 file"),
        (gzip.decompress((RECORDED / "edits.xml.gz").read_bytes()), "the XML of an edit log"),
        (b'<?xml version="1.0"?>\n<fsimage><NameSection>', "the XML of an fsimage"),
        (b"\xef\xbb\xbf <configuration/>", "an XML file"),
        ((RECORDED / "edits.xml.gz").read_bytes(), "a gzip file"),
        (bz2.compress(b"a"), "a bzip2 file"),
        (lzma.compress(b"a"), "an xz file"),
        (zipped(), "a ZIP or JAR file"),
        (tarred(), "a tar archive"),
        (json.dumps({"layoutVersion": -63}).encode(), "a JSON file"),
        (bytes(9000), "all zeros at the beginning"),
        (b"\xff" * 20, "all 0xff at the beginning"),
        (b"root:x:0:0:root:/root:/bin/bash\n", "a text file"),
        ("grüße\n".encode() * 700, "a text file"),
        (b"PAR1\x15\x04", "a Parquet file"),
        (b"\x7fELF\x02\x01\x01", "a program"),
    ],
)
def test_kind_of_each_file_format(content: bytes, name: str) -> None:
    kind = file_kind(content[:HEAD_BYTES])
    assert kind is not None
    assert kind.name.startswith(name)
    assert kind.hint


def test_number_is_recognized_as_seen_txid() -> None:
    kind = file_kind(b"85\n")
    assert kind is not None
    assert "seen_txid" in kind.name


@pytest.mark.parametrize("content", [b"\x00\x01\x02\x03" * 9, b"\x00\x00\x00\x09\x00", b"\x01"])
def test_unrecognized_bytes_have_no_kind(content: bytes) -> None:
    assert file_kind(content) is None


@given(st.binary(max_size=200))
def test_any_bytes_have_a_kind_or_none(content: bytes) -> None:
    kind = file_kind(content)
    assert kind is None or kind.name
