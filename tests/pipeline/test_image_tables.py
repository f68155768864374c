"""All tables except `inodes` of every recorded image match Hadoop's own viewer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from image_format.errors import ImageFormatError
from image_format.reader import ImageFile
from pipeline.host_image import HostImage
from pipeline.sources.readers import READERS
from pipeline.tables.catalogue import IMAGE_TABLES
from tests.image_format.image_support import has_its_references
from tests.image_tools.dump_support import Viewed, recorded_views
from tests.pipeline.oiv_tables import OivTables, Row

VIEWS = [
    view
    for view in recorded_views(large=False)
    if "corrupt" not in view.id and "/odd/" not in view.id and has_its_references(view.image)
]
TABLES = [name for name in IMAGE_TABLES if name not in {"inodes", "summary"}]


def read(image: HostImage, table: str, parts: int | None = None, columns: tuple[str, ...] | None = None) -> list[Row]:
    """Read the rows of all parts, and check that batches have the table's schema."""
    reader = READERS[table]
    wanted = reader.table.names if columns is None else columns
    schema = reader.table.select(wanted).arrow_schema()
    rows: list[Row] = []
    for part in reader.parts(image.image, parts):
        for batch in reader.read(image, part, wanted):
            assert batch.schema == schema
            batch.validate(full=True)
            assert not [field.name for field in schema if not field.nullable and batch.column(field.name).null_count]
            rows += batch.to_pylist()
    return rows


def shown(rows: list[Row], expected: list[Row]) -> list[Row]:
    """Return the rows with the columns that the viewer prints; Python's times are compared by their instant."""
    assert len(rows) == len(expected)
    return [{name: _plain(row[name]) for name in wanted} for row, wanted in zip(rows, expected, strict=True)]


def _plain(value: Any) -> Any:
    return b"" if value is None else value


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scratch")


def test_every_table_of_the_catalogue_has_a_reader() -> None:
    assert {name: reader.table for name, reader in READERS.items()} == IMAGE_TABLES


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.id)
def test_tables_equal_the_output_of_the_viewer(view: Viewed, scratch: Path) -> None:
    image, oiv = HostImage.open(view.image, scratch), OivTables(view.xml)
    for table in TABLES:
        expected = oiv.table(table)
        rows = read(image, table)
        assert expected is None or shown(rows, expected) == [
            {name: _plain(value) for name, value in row.items()} for row in expected
        ], table
        assert read(image, table, parts=3) == rows


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.id)
def test_the_summary_contains_headers_and_sections(view: Viewed, scratch: Path) -> None:
    image, oiv = HostImage.open(view.image, scratch), OivTables(view.xml)
    rows = read(image, "summary")
    values = {(row["section"], row["name"]): row["value"] for row in rows if row["kind"] == "VALUE" and not row["text"]}
    assert {key: values.get(key, 0) for key in oiv.header_values()} == oiv.header_values()
    sections = [row for row in rows if row["kind"] != "VALUE"]
    with ImageFile.open(view.image, verify_md5=False) as file:
        entries = [(entry.name, entry.offset, entry.length) for entry in file.summary.sections]
        everywhere = {(file.codec, file.layout_version, 1)}
    assert [(row["section"], row["offset"], row["length"]) for row in sections] == entries
    assert {(row["codec"], row["layout_version"], row["on_disk_version"]) for row in rows} == everywhere
    counts = {row["section"]: row["records"] for row in sections if row["kind"] == "SECTION"}
    assert {section: counts.get(section, 0) for section in oiv.record_counts()} == oiv.record_counts()


@pytest.mark.parametrize("table", TABLES)
def test_columns_can_be_read_singly_and_in_any_order(table: str, scratch: Path) -> None:
    view = next(view for view in VIEWS if "snapshots-open-files/oiv_after" in view.id)
    image = HostImage.open(view.image, scratch)
    names = tuple(reversed(IMAGE_TABLES[table].names))
    whole = read(image, table)
    assert read(image, table, columns=names) == [{name: row[name] for name in names} for row in whole]
    for name in names:
        assert read(image, table, columns=(name,)) == [{name: row[name]} for row in whole]


def test_every_table_has_rows_in_some_recorded_image(scratch: Path) -> None:
    found: set[str] = set()
    for view in VIEWS:
        image = HostImage.open(view.image, scratch)
        found |= {table for table in set(TABLES) - found if read(image, table)}
        if found == set(TABLES):
            return
    assert found == set(TABLES)


def test_no_secret_is_in_any_table(scratch: Path) -> None:
    view = next(view for view in VIEWS if view.id.endswith("3.4.1/tokens/oiv_after"))
    image, secrets = HostImage.open(view.image, scratch), OivTables(view.xml).secrets()
    assert secrets
    assert all(secret in view.image.read_bytes() for secret in secrets)
    for table in IMAGE_TABLES:
        reader = READERS[table]
        for part in reader.parts(image.image, None):
            sink = pa.BufferOutputStream()
            batches = list(reader.read(image, part, reader.table.names))
            with pa.ipc.new_stream(sink, reader.table.arrow_schema()) as writer:
                for batch in batches:
                    writer.write_batch(batch)
            written = sink.getvalue().to_pybytes()
            text = repr([batch.to_pylist() for batch in batches])
            assert not [s for s in secrets if s in written or s.hex() in text or repr(s)[2:-1] in text], table


DAMAGE = [
    ("blocks", "INODE"),
    ("blocks", "ERASURE_CODING"),
    ("directories", "INODE_DIR"),
    ("directories", "SNAPSHOT"),
    ("snapshots", "SNAPSHOT"),
    ("snapshots", "STRING_TABLE"),
    ("snapshot_diffs", "SNAPSHOT_DIFF"),
    ("references", "INODE_REFERENCE"),
    ("acls", "INODE"),
    ("under_construction", "FILES_UNDERCONSTRUCTION"),
    ("cache", "CACHE_MANAGER"),
    ("tokens", "SECRET_MANAGER"),
    ("summary", "CACHE_MANAGER"),
]


@pytest.mark.parametrize(("table", "section"), DAMAGE)
def test_the_error_names_a_damaged_section(table: str, section: str, tmp_path: Path) -> None:
    view = next(view for view in VIEWS if view.id.endswith("erasure-coding-snapshots/oiv_after"))
    copy = tmp_path / view.image.name
    data = bytearray(view.image.read_bytes())
    with ImageFile.open(view.image, verify_md5=False) as file:
        entry = next(entry for entry in file.sections if entry.name == section)
    data[entry.offset : entry.end] = b"\xff" * entry.length
    copy.write_bytes(data)
    with pytest.raises(ImageFormatError) as caught:
        read(HostImage.open(copy, tmp_path / "scratch"), table)
    assert (caught.value.section, caught.value.file) == (section, str(copy))
    assert caught.value.hint


def test_a_lease_of_a_missing_inode_is_an_error(tmp_path: Path) -> None:
    view = next(view for view in VIEWS if view.id.endswith("3.4.1/open-files-leases/oiv_after"))
    with ImageFile.open(view.image, verify_md5=False) as file:
        entry = next(entry for entry in file.sections if entry.name == "FILES_UNDERCONSTRUCTION")
    data = bytearray(view.image.read_bytes())
    # A record is its length, then tag 8 and the id as a varint.
    data[entry.offset + 2] |= 0x3F
    copy = tmp_path / view.image.name
    copy.write_bytes(data)
    with pytest.raises(ImageFormatError, match="which is missing from the image"):
        read(HostImage.open(copy, tmp_path / "scratch"), "under_construction")
