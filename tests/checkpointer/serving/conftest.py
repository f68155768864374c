"""A served namespace: an image, and the operations `OPS` of the test's module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from checkpointer.serving import live_namespace
from engine.warm_namespace import WarmNamespace
from tests.engine.image_builder import BASE_TXID, ImageBuilder, numbered


@pytest.fixture
def warm(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[WarmNamespace]:
    """Yield the namespace, whose readers do not wait for transactions."""
    monkeypatch.setattr(live_namespace, "WAIT_SECONDS", 0)
    with WarmNamespace() as namespace:
        namespace.load(ImageBuilder(-67).save(tmp_path))
        namespace.apply(list(numbered(request.module.OPS, BASE_TXID)))
        yield namespace
