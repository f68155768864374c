"""Settings of all tests: number of examples, sample of the quick tier, and the table of durations."""

from __future__ import annotations

import gc
import math
import os
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from image_format.compiling.mode import VARIABLE, Mode
from tests.depth import deep, sample, scaled
from tests.scheduling import SharedJvms

_EACH, _EACH_RECORDED, _EACH_OF_LAYOUTS, _EACH_WITH_JVM, _EACH_WITH_SERVERS = 4, 4, 1, 1, 1
"""Parameter sets of one test function in the quick tier; fewer where each of them takes longer."""
_RELEASES = ("hadoop-2.7.3/", "hadoop-3.3.6/", "hadoop-3.4.1/", "hadoop-3.5.0/")
"""Prefixes of recorded cases' names; a sample has some of each."""
_MEMORY, _MEMORY_NEEDED = Path("/dev/shm"), 4 << 30
"""Folder for the quick tier's files if it has enough space: their writes need not wait for a disk."""

if not deep() and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _MEMORY_NEEDED:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

# Keep compiled modules also without `make`: processes of tests import hundreds of them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Tests compare kernels with their Python forms and count fallbacks: all kernels run compiled.
os.environ.setdefault(VARIABLE, Mode.COMPILED.value)

# No timed assertions: a kernel's first call compiles it, and machines are slow at times.
settings.register_profile(
    "depth", deadline=None, max_examples=scaled(200, 15), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("depth")
if not deep() and hasattr(providers, "is_local_module_file"):
    # to try the constants of the code, each process would parse every module, for 8 s in a fresh clone
    providers.is_local_module_file = lambda path: False


@pytest.fixture(autouse=True)
def no_lines_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn progress lines off, so that standard error is the same on slow machines."""
    monkeypatch.setattr("hadoop_common.cli.progress._EVERY", math.inf)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    """Give tests that share a JVM to one worker with `--dist loadgroup`."""
    return SharedJvms(config, log) if config.option.dist == "loadgroup" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests marked `deep` in the quick tier, and keep a sample of many parameter sets.

    A selection by `::` or `-k` keeps all.
    """
    if deep() or config.option.keyword or any("::" in each for each in config.args):
        return
    kept = {id(item) for item in _quick(items)}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]


def _quick(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    functions: dict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        assert isinstance(item, pytest.Function)
        if item.get_closest_marker("deep") is None:
            functions[item.nodeid.partition("[")[0]].append(item)
    for name, each in functions.items():
        yield from _sampled(each, _kept(each[0]), name)


def _kept(item: pytest.Function) -> int:
    """Return the number of parameter sets to keep of a test function."""
    told = item.get_closest_marker("parameters")
    if told is not None:
        return int(told.args[0])
    if {"hadoop", "spark"} & set(item.fixturenames):
        return _EACH_WITH_JVM
    if item.get_closest_marker("interop") is not None:
        return _EACH_WITH_SERVERS
    if hasattr(item, "callspec") and item.callspec.params.keys() == {"layout"}:
        return _EACH_OF_LAYOUTS
    return _EACH_RECORDED if item.get_closest_marker("recorded") is not None else _EACH


def _sampled(items: list[pytest.Function], count: int, name: str) -> Iterator[pytest.Function]:
    """Yield `count` items, evenly spread over the releases of recorded cases."""
    found = [[item for item in items if release in item.nodeid] for release in _RELEASES]
    groups = sorted(filter(None, found), key=len)
    if count < len(groups) or sum(map(len, groups)) < len(items):
        yield from sample(items, count, name)
        return
    for index, group in enumerate(groups):
        few = min(len(group), count // (len(groups) - index))
        yield from sample(group, few, name)
        count -= few


def pytest_collection_finish() -> None:
    """Freeze the objects of tests and libraries, so that later garbage collections skip them."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the number of tests and their seconds by folder."""
    seconds: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                folder = Path(report.nodeid.partition("::")[0]).parent.as_posix()
                seconds[folder] += report.duration
                counts[folder] += report.when == "call"
    terminalreporter.section(f"{'deep' if deep() else 'quick'} tier: tests and seconds by folder")
    for folder in sorted(seconds):
        terminalreporter.write_line(f"{folder:<28}{counts[folder]:>8}{seconds[folder]:>10.1f} s")
