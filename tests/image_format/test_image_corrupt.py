"""Damaged images recorded with a NameNode's verdict: the reader is at least as strict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hadoop_common.names import parse_image
from image_format import errors
from image_format.proto import fsimage_pb2 as pb
from image_format.reader import ImageFile
from image_format.varint import parse_message
from tests.image_format.image_support import RECORDED

CORRUPT = RECORDED / "hadoop-2.7.3" / "corrupt"
EXPECTED: dict[str, type[errors.ImageFormatError]] = {
    "image-bad-magic": errors.BadMagicError,
    "image-codec-dropped": errors.RecordError,
    "image-codec-unknown": errors.UnsupportedCodecError,
    "image-codec-wrong": errors.CodecError,
    "image-cut-1": errors.TruncatedImageError,
    "image-cut-100": errors.TruncatedImageError,
    "image-cut-4": errors.TruncatedImageError,
    "image-cut-half": errors.TruncatedImageError,
    "image-empty": errors.TruncatedImageError,
    "image-flip-no-md5-update": errors.DigestMismatchError,
    "image-layout-future": errors.UnsupportedLayoutError,
    "image-md5-malformed": errors.UnusableDigestError,
    "image-md5-other-name": errors.UnusableDigestError,
    "image-newest-bad-older-good": errors.BadMagicError,
    "image-no-md5": errors.MissingDigestError,
    "image-ondisk-version": errors.SummaryError,
    "image-only-magic": errors.TruncatedImageError,
    "image-section-length-beyond": errors.SummaryError,
    "image-section-missing-inode-dir": errors.MissingSectionError,
    "image-section-missing-ns-info": errors.MissingSectionError,
    "image-section-missing-string-table": errors.MissingSectionError,
    "image-section-offset-beyond": errors.SummaryError,
    "image-section-short": errors.RecordError,
    "image-section-unknown": errors.MissingSectionError,
    "image-summary-length-huge": errors.TruncatedImageError,
    "image-summary-length-minus1": errors.SummaryError,
    "image-summary-length-negative": errors.SummaryError,
    "image-summary-length-plus1": errors.SummaryError,
    "image-summary-length-zero": errors.SummaryError,
    "image-txid-name": errors.TransactionIdError,
    "image-wrong-md5": errors.DigestMismatchError,
}
# a NameNode reads on to the end of the file; our reader requires that the section ends within the section area
STRICTER = {"image-section-length-beyond"}
CASES = sorted(path.parent.name for path in CORRUPT.glob("image-*/case.json"))


def newest_image(case: str) -> Path:
    images = {named.txid: path for path in (CORRUPT / case / "before").iterdir() if (named := parse_image(path.name))}
    return images[max(images)]


def scan(path: Path) -> None:
    with ImageFile.open(path) as image:
        image.string_table()
        records = image.records("INODE")
        header = parse_message(pb.INodeSection, next(records), image.place("INODE"))
        inodes = [parse_message(pb.INode, record, image.place("INODE")) for record in records]
        assert len(inodes) == header.numInodes


@pytest.mark.recorded
@pytest.mark.parametrize("case", CASES)
def test_the_reader_refuses_what_a_namenode_refuses(case: str) -> None:
    verdict = json.loads((CORRUPT / case / "case.json").read_text())["verdict"]["NameNode"]
    path = newest_image(case)
    if case not in EXPECTED:
        assert verdict["loaded"]
        scan(path)
        return
    assert not verdict["loaded"] or case in STRICTER
    with pytest.raises(errors.ImageFormatError) as raised:
        scan(path)
    assert type(raised.value) is EXPECTED[case]
    assert str(path) in raised.value.message
    assert raised.value.hint


@pytest.mark.recorded
def test_every_expectation_has_a_case() -> None:
    assert set(EXPECTED) <= set(CASES)


@pytest.mark.recorded
@pytest.mark.parametrize("codec", ["bzip2", "default", "gzip", "lz4", "snappy"])
def test_every_recorded_codec_is_read(codec: str) -> None:
    (path,) = (RECORDED / "hadoop-3.4.1" / f"compress-{codec}" / "before").glob("fsimage_*[0-9][0-9]")
    with ImageFile.open(path) as image:
        assert codec in image.codec.lower()
        assert all(image.section(section.name) is not None for section in image.sections)
