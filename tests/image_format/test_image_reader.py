from __future__ import annotations

import gc
import hashlib
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from image_format.codecs import find_codec
from image_format.errors import (
    CodecError,
    DigestMismatchError,
    ImageFormatError,
    ImageStorageError,
    MissingDigestError,
    MissingSectionError,
    RecordError,
    TransactionIdError,
    TruncatedImageError,
    UnsupportedLayoutError,
)
from image_format.md5_file import md5_path
from image_format.reader import REQUIRED_SECTIONS, ImageFile
from image_format.varint import encode_varint
from tests.depth import examples
from tests.image_format.image_support import (
    CODEC_NAMES,
    build_image,
    image_id,
    minimal_sections,
    recorded_images,
    store,
)

MINIMAL = build_image(minimal_sections())


@pytest.mark.recorded
@pytest.mark.parametrize("path", recorded_images(), ids=image_id)
def test_recorded_images_can_be_opened(path: Path) -> None:
    with ImageFile.open(path) as image:
        assert image.txid == int(path.name.removeprefix("fsimage_"))
        assert image.layout_version in range(-67, -62)
        assert image.md5 == hashlib.md5(path.read_bytes()).digest()
        assert image.size == path.stat().st_size
        assert {entry.name for entry in image.sections} >= set(REQUIRED_SECTIONS)
        for entry in image.sections:
            if entry.name not in ("INODE_SUB", "FUTURE_SECTION", "EXTENDED_ACL"):
                size = sum(
                    len(encode_varint(len(r.body))) + len(r.body)
                    for r in image.records(entry.name.removesuffix("_SUB"))
                )
                assert size == image.section(entry.name.removesuffix("_SUB")).size  # type: ignore[union-attr]


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_sections_and_properties_of_an_image(tmp_path: Path, codec: str) -> None:
    sections = [*minimal_sections(), ("FUTURE_SECTION", b"anything at all")]
    path = store(tmp_path, build_image(sections, codec))
    with ImageFile.open(path) as image:
        assert [entry.name for entry in image.sections] == [name for name, _ in sections]
        assert image.codec == codec
        assert image.txid == image.ns_info().transactionId == 7
        assert len(image.string_table()) == 2
        assert len(list(image.records("INODE"))) == 2
        for name, body in sections:
            found = image.section(name)
            assert found is not None
            assert found.dtype == np.uint8
            assert not found.flags.writeable
            assert bytes(found.data) == bytes(image.section_bytes(name)) == body
        assert image.section("SNAPSHOT") is None
        with pytest.raises(MissingSectionError, match="section SNAPSHOT"):
            image.section_bytes("SNAPSHOT")


def test_sections_are_views_of_the_mapping_and_outlive_close(tmp_path: Path) -> None:
    path = store(tmp_path, MINIMAL)
    with ImageFile.open(path) as image:
        first, second = image.section("INODE"), image.section("INODE")
        assert first is not None
        assert second is not None
        assert np.shares_memory(first, second)
        place = image.place("INODE")
    gc.collect()
    assert bytes(first.data) == dict(minimal_sections())["INODE"]
    assert place.base is not None
    assert MINIMAL[place.base : place.base + first.size] == bytes(first.data)
    with pytest.raises(ValueError, match="is closed"):
        image.section("INODE")


def test_changing_ns_info_does_not_change_the_image(tmp_path: Path) -> None:
    with ImageFile.open(store(tmp_path, MINIMAL)) as image:
        image.ns_info().transactionId = 99
        assert image.txid == 7


@pytest.mark.parametrize("codec", CODEC_NAMES[1:])
def test_large_sections_are_spooled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str) -> None:
    monkeypatch.setattr("image_format.reader.SPOOL_LIMIT", 1000)
    spool = tmp_path / "spool"
    spool.mkdir()
    body = bytes(range(256)) * 20_000
    path = store(tmp_path, build_image([*minimal_sections(), ("BIG", body)], codec))
    with ImageFile.open(path, spool_dir=spool) as image:
        big = image.section("BIG")
        assert big is not None
        assert bytes(big.data) == body
        assert not big.flags.writeable
        assert image.section("BIG") is big
        assert list(spool.iterdir()) == []
    assert bytes(big[-3:].data) == body[-3:]


def test_a_missing_spool_directory_is_a_storage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("image_format.reader.SPOOL_LIMIT", 10)
    path = store(tmp_path, build_image([*minimal_sections(), ("BIG", bytes(5000))], CODEC_NAMES[1]))
    with pytest.raises(ImageStorageError, match=r"cannot spool a decompressed section to .*absent"):
        ImageFile.open(path, spool_dir=tmp_path / "absent").section("BIG")


def test_the_md5_file_is_required_and_verified_by_default(tmp_path: Path) -> None:
    path = store(tmp_path, MINIMAL)
    md5_path(path).unlink()
    with pytest.raises(MissingDigestError):
        ImageFile.open(path)
    with ImageFile.open(path, verify_md5=False) as image:
        assert image.md5 is None
    flipped = bytearray(MINIMAL)
    flipped[60] ^= 1
    store(tmp_path, MINIMAL)
    path.write_bytes(flipped)
    with pytest.raises(DigestMismatchError, match="its MD5 is"):
        ImageFile.open(path)


def test_missing_and_empty_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "fsimage_0000000000000000007"
    with pytest.raises(ImageStorageError, match="cannot read"):
        ImageFile.open(path)
    with pytest.raises(ImageStorageError, match="cannot read"):
        ImageFile.open(tmp_path)
    path.write_bytes(b"")
    with pytest.raises(TruncatedImageError, match="the file is empty"):
        ImageFile.open(path)


@pytest.mark.parametrize("name", REQUIRED_SECTIONS)
def test_a_missing_required_section_is_an_error(tmp_path: Path, name: str) -> None:
    sections = [(other, body) for other, body in minimal_sections() if other != name]
    with pytest.raises(MissingSectionError, match=f"section {name}"):
        ImageFile.open(store(tmp_path, build_image(sections)))


@pytest.mark.parametrize("name", ["fsimage_0000000000000000008", "fsimage_rollback_0000000000000000008"])
def test_txid_of_the_file_name_must_equal_that_of_ns_info(tmp_path: Path, name: str) -> None:
    with pytest.raises(TransactionIdError, match="has transaction 8, but its NS_INFO has 7"):
        ImageFile.open(store(tmp_path, MINIMAL, name))


def test_a_transaction_id_beyond_a_java_long_is_refused(tmp_path: Path) -> None:
    path = store(tmp_path, build_image(minimal_sections(1 << 63)), "fsimage")
    with pytest.raises(TransactionIdError, match="9223372036854775808, which is beyond any edit log"):
        ImageFile.open(path)


@pytest.mark.parametrize("name", ["fsimage_rollback_0000000000000000007", "fsimage.ckpt_0000000000000000009", "x"])
def test_other_file_names_need_no_txid(tmp_path: Path, name: str) -> None:
    with ImageFile.open(store(tmp_path, MINIMAL, name)) as image:
        assert image.txid == 7


def test_unsupported_layout_versions_are_refused(tmp_path: Path) -> None:
    path = store(tmp_path, build_image(minimal_sections(), layout_version=-70))
    with pytest.raises(UnsupportedLayoutError):
        ImageFile.open(path)
    with ImageFile.open(path, allow_unknown_layout=True) as image:
        assert image.layout_version == -70
    with pytest.raises(UnsupportedLayoutError):
        ImageFile.open(store(tmp_path, build_image(minimal_sections(), layout_version=-40)))


def test_bytes_after_ns_info_are_an_error(tmp_path: Path) -> None:
    sections = [(name, body + b"\x00" * (name == "NS_INFO")) for name, body in minimal_sections()]
    with pytest.raises(RecordError, match=r"section NS_INFO, offset 1[0-9]: bytes follow"):
        ImageFile.open(store(tmp_path, build_image(sections)))


@pytest.mark.parametrize("codec", CODEC_NAMES[1:])
def test_damaged_stream_names_section_and_file_offset(tmp_path: Path, codec: str) -> None:
    data = build_image([*minimal_sections(), ("BIG", bytes(range(256)) * 10)], codec)
    path = store(tmp_path, data)
    with ImageFile.open(path) as image:
        entry = image.sections[-1]
    damaged = bytearray(data)
    damaged[entry.offset : entry.end] = bytes(entry.length)
    with (
        ImageFile.open(store(tmp_path, bytes(damaged))) as image,
        pytest.raises(CodecError, match=r"section BIG, offset \d+: "),
    ):
        image.section("BIG")


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_stored_bytes_equal_the_bytes_of_the_file(tmp_path: Path, codec: str) -> None:
    with ImageFile.open(store(tmp_path, build_image(minimal_sections(), codec))) as image:
        for entry in image.sections:
            body = b"".join(find_codec(codec).decompressor().decompress_iter(image.stored_bytes(entry)))
            assert body == dict(minimal_sections())[entry.name]


def read_everything(path: Path) -> None:
    with suppress(ImageFormatError), ImageFile.open(path, verify_md5=False) as image:
        for entry in image.sections:
            image.stored_bytes(entry)
            steps: list[Callable[[], object]] = [
                lambda entry=entry: image.section(entry.name),  # type: ignore[misc]
                lambda entry=entry: list(image.records(entry.name)),  # type: ignore[misc]
            ]
            for step in steps:
                with suppress(ImageFormatError):
                    step()
        image.string_table()


mutations = st.lists(
    st.tuples(st.sampled_from(["flip", "drop", "insert", "cut"]), st.floats(0, 1), st.integers(0, 255)),
    min_size=1,
    max_size=4,
)


@pytest.mark.parametrize("codec", CODEC_NAMES)
@given(mutations=mutations)
@examples(150)
def test_damaged_images_raise_only_image_format_errors(codec: str, mutations: list[tuple[str, float, int]]) -> None:
    data = bytearray(build_image([*minimal_sections(), ("FUTURE", b"\x03abc")], codec))
    for kind, where, byte in mutations:
        index = min(int(where * len(data)), len(data) - 1)
        if kind == "flip" and data:
            data[index] ^= byte
        elif kind == "drop":
            del data[index : index + 1 + byte % 8]
        elif kind == "insert":
            data[index:index] = bytes([byte])
        else:
            del data[max(index, len(data) - byte) :]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fsimage_0000000000000000007")
        path.write_bytes(data)
        read_everything(path)
