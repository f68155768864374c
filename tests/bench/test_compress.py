"""The benchmark of codecs writes whole images, which are the same with one thread and with all cores."""

from __future__ import annotations

from pathlib import Path

from bench.compress import measure
from image_format.reader import ImageFile
from tests.bench.made import make


def test_every_codec_and_thread_count_writes_an_image(tmp_path: Path) -> None:
    with ImageFile.open(make(tmp_path / "base").path) as image:
        runs = measure(image, tmp_path, 2, ("none", "default", "snappy"))
        assert list(runs) == ["one zlib stream", "none, 1", "none", "default, 1", "default", "snappy, 1", "snappy"]
        for codec in ("none", "default", "snappy"):
            assert len({run.size for run in runs[codec] + runs[f"{codec}, 1"]}) == 1
        assert runs["none"][0].size > runs["default"][0].size > 0
    assert [path.name for path in tmp_path.iterdir()] == ["base"]
