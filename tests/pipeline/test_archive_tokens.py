"""Spark sends archived images to executors without delegation tokens, unless a table reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from archive.adding import add_directory
from archive.archive import open_archive
from image_format.proto import fsimage_pb2 as pb
from pipeline.archive_query import ArchiveQuery
from pipeline.source_files import SourceKind
from pipeline.sources.fsimage import OPTIONS
from pipeline.sources.options import SourceOptions
from pipeline.staged_archive import archived_files
from tests.engine.image_builder import Saved
from tests.recorded_cases import RECORDED, Case


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of a namespace with delegation tokens."""
    folder = tmp_path_factory.mktemp("tokens")
    release = RECORDED / "hadoop-3.3.6"
    case = next(Case(path) for path in sorted(release.iterdir()) if "token" in path.name or "delegation" in path.name)
    case.copy_to(folder / "nn")
    with open_archive(str(folder / "archive")) as archive:
        add_directory(archive, folder / "nn")
    return folder / "archive"


@pytest.mark.parametrize(("table", "kept"), [("inodes", False), ("tokens", True), ("summary", True)])
def test_tokens_are_sent_only_for_tables_that_read_them(table: str, kept: bool, root: Path, tmp_path: Path) -> None:
    (uri,) = SourceOptions("fsimage", OPTIONS, {"archive": str(root), "table": table}).paths
    query = ArchiveQuery.parse(uri)
    assert query is not None
    (file,) = archived_files(query, SourceKind.IMAGE, tmp_path, {})
    found = Saved(file.on_driver().read_bytes()).first("SECRET_MANAGER", pb.SecretManagerSection)
    assert (found.numTokens + found.numKeys > 0) == kept
