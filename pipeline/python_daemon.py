"""PySpark's worker daemon, which imports what most tasks need once, before it forks its workers.

For `spark.python.daemon.module` on this host. On a cluster the module may be missing where the daemon starts, because
Spark passes `--py-files` only to workers.
"""

from __future__ import annotations

import importlib

_IMPORTED = ("numpy", "numba", "pyarrow", "pyspark.worker", "pipeline.sources.readers")
"""Modules that start no threads, because threads do not survive a fork."""


def main() -> None:
    """Import the modules, then serve requests for workers until Spark ends."""
    for name in _IMPORTED:
        importlib.import_module(name)
    from pyspark import daemon

    daemon.manager()


if __name__ == "__main__":
    main()
