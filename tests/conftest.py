"""What holds for every test: how many examples, which sample of the quick tier, and what it all took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.depth import deep, sample, scaled

_EACH, _EACH_WITH_JVM = 8, 2
"""Parameter sets of one test function in the quick tier; fewer where each of them takes seconds."""

# No timed assertions: a kernel's first call compiles it, and machines are slow at times.
settings.register_profile(
    "depth", deadline=None, max_examples=scaled(200, 15), suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("depth")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In the quick tier leave out what is marked `deep`, and keep a sample of many parameter sets.

    Whoever names tests, by `::` or `-k`, gets them all.
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
        dear = each[0].get_closest_marker("interop") is not None or "spark" in each[0].fixturenames
        yield from sample(each, _EACH_WITH_JVM if dear else _EACH, name)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was run and for how long, by folder."""
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
