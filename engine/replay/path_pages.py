"""Parallel reads of the pages that the look-up of many paths needs.

Without the page cache, each page is read separately on its first use (`ImageFile.read_around_cache`). A search in one
thread therefore waits for one page after another.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.replay.kernels.open_files import follow_paths

_THREADS = 16


def read_path_pages(state: npt.NDArray[Any], section: npt.NDArray[np.uint8], spans: npt.NDArray[np.int64]) -> None:
    """Search for the directories of paths in the base image; see `follow_paths`."""

    def follow(first: int) -> None:
        follow_paths(state, section, spans, first, _THREADS)

    with ThreadPoolExecutor(_THREADS, "image-paths") as pool:
        list(pool.map(follow, range(_THREADS)))
