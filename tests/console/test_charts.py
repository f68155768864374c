"""Charts on the pages."""

from __future__ import annotations

import pytest

from console.charts import ChartBar, bar_chart


@pytest.mark.parametrize(
    ("highest", "labels"),
    [(15.03, "0 5 10 15 20"), (985.5, "0 200 400 600 800 1000"), (0.0, "0.0 0.2 0.4 0.6 0.8 1.0")],
)
@pytest.mark.parameters(3)
def test_chart_lines_are_at_round_numbers(highest: float, labels: str) -> None:
    bars = [ChartBar(1.0, (highest,))]
    shown: list[float] = []

    def label(value: float) -> str:
        shown.append(value)
        return str(value)

    bar_chart("t", bars, ("a",), since=0, until=2, label=label, when=str)
    assert shown == pytest.approx([float(each) for each in labels.split()])
