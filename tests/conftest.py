"""Settings of all tests: number of examples, sampling in the quick tier, and the table of durations."""

from __future__ import annotations

import gc
import math
import os
import shutil
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from image_format.compiling.mode import VARIABLE, Mode
from tests.depth import deep, sample, scaled
from tests.scheduling import SharedJvms

_EACH, _EACH_RECORDED, _EACH_OF_LAYOUTS, _EACH_WITH_JVM, _EACH_WITH_SERVERS = 3, 4, 1, 1, 1
"""Number of parameter sets of one test function in the quick tier; fewer for slow tests."""
_RELEASES = ("hadoop-2.7.3/", "hadoop-3.3.6/", "hadoop-3.4.1/", "hadoop-3.5.0/")
"""Prefixes of recorded cases' names; a sample contains cases with each prefix."""
_MEMORY, _MEMORY_NEEDED = Path("/dev/shm"), 4 << 30
"""Folder for the quick tier's files if it has enough space, so that their writes do not wait for a disk."""

if not deep() and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _MEMORY_NEEDED:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))

# Keep compiled modules even without `make`, because test processes import hundreds of modules.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Tests compare kernels with their Python forms and count fallbacks, so all kernels run compiled.
os.environ.setdefault(VARIABLE, Mode.COMPILED.value)

# pytest keeps collected modules until the end, so garbage collection would free little, but take a sixth of the time
gc.disable()

# No deadlines, because a kernel's first call compiles the kernel, and machines are sometimes slow.
settings.register_profile(
    "depth", deadline=None, max_examples=scaled(200, 15), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("depth")
if not deep() and hasattr(providers, "is_local_module_file"):
    # Hypothesis would parse every module to find constants, which takes each process 8 s in a fresh clone
    providers.is_local_module_file = lambda path: False


@pytest.fixture(autouse=True)
def no_lines_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn progress lines off, so that standard error is the same on slow machines."""
    monkeypatch.setattr("hadoop_common.cli.progress._EVERY", math.inf)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    """With `--dist loadgroup`, assign tests that share a JVM to the same worker."""
    return SharedJvms(config, log) if config.option.dist == "loadgroup" else None


def _everything(config: pytest.Config) -> bool:
    """Return whether tests run with all their parameters: in the deep tier, or if `::` or `-k` selects them."""
    return deep() or bool(config.option.keyword) or any("::" in each for each in config.args)


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """In the quick tier, keep a sample of a test function's parameter sets before pytest makes tests of all of them."""
    sets = metafunc._calls
    if _everything(metafunc.config) or len(sets) < 2:
        return
    left = [each for each in sets if all(mark.name != "deep" for mark in each.marks)]
    # if all sets are marked `deep`, the hook below skips the remaining set
    sets[:] = _sampled(left, _kept(metafunc), metafunc.definition.nodeid) if left else sets[:1]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests marked `deep` in the quick tier."""
    if _everything(config):
        return
    left_out = [item for item in items if item.get_closest_marker("deep") is not None]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item.get_closest_marker("deep") is None]


def _kept(metafunc: pytest.Metafunc) -> int:
    """Return the number of parameter sets of a test function to keep."""
    marker = metafunc.definition.get_closest_marker
    if (reported := marker("parameters")) is not None:
        return int(reported.args[0])
    if {"hadoop", "spark"} & set(metafunc.fixturenames):
        return _EACH_WITH_JVM
    if marker("interop") is not None:
        return _EACH_WITH_SERVERS
    if metafunc._calls[0].params.keys() == {"layout"}:
        return _EACH_OF_LAYOUTS
    return _EACH_RECORDED if marker("recorded") is not None else _EACH


def _sampled(sets: list[Any], count: int, name: str) -> list[Any]:
    """Return `count` sets of parameters, evenly spread over the releases of recorded cases."""
    found = [[each for each in sets if release in each.id] for release in _RELEASES]
    groups = sorted(filter(None, found), key=len)
    if count < len(groups) or sum(map(len, groups)) < len(sets):
        return list(sample(sets, count, name))
    kept: list[Any] = []
    for index, group in enumerate(groups):
        few = min(len(group), (count - len(kept)) // (len(groups) - index))
        kept += sample(group, few, name)
    return kept


def pytest_collection_finish() -> None:
    """Freeze the objects of tests and libraries, so that later garbage collections skip them."""
    gc.enable()
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the number of tests and the seconds they took, by folder."""
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
