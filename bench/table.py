"""The table of `python -m bench`: rounds of the floor, our merge and Hadoop's, as text, Markdown and a chart."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.phases import PARTS, Part, Run
from bench.plot import bars
from tests.interop.hadoop_home import NEWEST

_NAMES = {"ours": "hdfs-checkpointer", "hadoop": NEWEST.jars.title, "floor": "floor"}


@dataclass(frozen=True)
class MixResult:
    """Measurements of one mix.

    Attributes:
        rounds: runs by name: `floor`, `ours`, and `hadoop` if requested.
        heap: heap of Hadoop's JVM.
        snapshots: whether the image has snapshots.
    """

    mix: str
    inodes: int
    transactions: int
    image_bytes: int
    edits_bytes: int
    heap: str
    rounds: tuple[dict[str, Run], ...]
    snapshots: bool = False

    @property
    def title(self) -> str:
        """Description of the image and edits."""
        image = f"{self.inodes:,} inodes{', snapshots' if self.snapshots else ''}"
        return f"{image}, {self.transactions:,} transactions, mix `{self.mix}`"

    @property
    def label(self) -> str:
        """The title as a short label for charts."""
        return f"{self.mix} {self.inodes / 1e6:g}M{'+s' if self.snapshots else ''}"

    def rate(self, name: str) -> float:
        """Return the transactions replayed per second."""
        return self.transactions / self.median(name, "replay").seconds

    def median(self, name: str, part: str) -> Part:
        """Return the median seconds and the largest memory of a part over all rounds."""
        found = [round_[name].parts[part] for round_ in self.rounds]
        return Part(
            statistics.median(each.seconds for each in found),
            statistics.median(each.cpu for each in found),
            max(each.anonymous for each in found),
        )

    def ratio(self, above: str, below: str, part: str) -> float:
        """Return the median of the ratios within the rounds, in which other load on the machine cancels out."""
        return statistics.median(
            round_[above].parts[part].seconds / round_[below].parts[part].seconds for round_ in self.rounds
        )

    @property
    def has_hadoop(self) -> bool:
        return "hadoop" in self.rounds[0]


def numbers(result: MixResult) -> dict[str, object]:
    """Return all measurements, for JSON."""
    rounds = [
        {name: {part: vars(each) for part, each in run.parts.items()} | {"resident": run.resident}
         for name, run in round_.items()}
        for round_ in result.rounds
    ]  # fmt: skip
    known = {key: value for key, value in vars(result).items() if key != "rounds"}
    return {**known, "rounds": rounds, "ratios": _ratios(result)}


def _ratios(result: MixResult) -> dict[str, float]:
    ours = result.median("ours", "whole")
    ratios = {"oursToFloor": result.ratio("ours", "floor", "whole")}
    if result.has_hadoop:
        hadoop = result.median("hadoop", "whole")
        ratios |= {"hadoopToOurs": result.ratio("hadoop", "ours", "whole"), "memory": hadoop.anonymous / ours.anonymous}
        ratios |= {f"hadoopToOurs_{part}": result.ratio("hadoop", "ours", part) for part in PARTS}
    return ratios


def markdown(results: Sequence[MixResult], machine: str, chart_file: str) -> str:
    """Return the page of results as Markdown."""
    rounds = len(results[0].rounds)
    lines = [
        "# Results",
        "",
        f"`python -m bench` on {machine}; medians of {rounds} rounds. In each round, all programs ran in turn.",
        "Ratios are medians of the ratios within a round. Memory is the peak of anonymous memory.",
        "",
        f"![whole merge]({chart_file})",
        "",
    ]
    if len(results) > 1:
        lines += _summary(results)
    for result in results:
        lines += _section(result)
    return "\n".join(lines)


def _summary(results: Sequence[MixResult]) -> Iterator[str]:
    yield "| image and edits | ours s | x floor | Hadoop / ours | its memory / ours | transactions/s | Hadoop's |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for result in results:
        ratios = _ratios(result)
        row = [f"{result.median('ours', 'whole').seconds:.2f}", f"{ratios['oursToFloor']:.2f}"]
        row += [f"{ratios[name]:.1f}" if name in ratios else "" for name in ("hadoopToOurs", "memory")]
        row += [f"{result.rate(name):,.0f}" if name in result.rounds[0] else "" for name in ("ours", "hadoop")]
        yield f"| {result.title} | {' | '.join(row)} |"
    yield ""


def _section(result: MixResult) -> Iterator[str]:
    yield f"## {result.title}"
    yield ""
    sizes = f"Image {result.image_bytes / 1e6:,.0f} MB, edits {result.edits_bytes / 1e6:,.0f} MB"
    yield sizes + (f"; Hadoop's heap {result.heap}." if result.has_hadoop else ".")
    yield ""
    yield "| program | part | wall s | CPU s | memory MB | x floor | Hadoop / ours |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    floor = result.median("floor", "whole")
    ways = statistics.multimode(round_["floor"].way for round_ in result.rounds)
    labels = {"md5sum": "md5sum", "copy": f"durable copy ({ways[0]})"}
    labels |= {"whole": "the longer of the two", "sum": "sum of the two"}
    for part, label in labels.items():
        each = result.median("floor", part)
        ratio = each.seconds / floor.seconds
        yield f"| {_NAMES['floor']} | {label} | {each.seconds:.3f} | {each.cpu:.3f} | | {ratio:.2f} | |"
    for name in ("ours", "hadoop"):
        if name in result.rounds[0]:
            yield from _rows(result, name)
    yield ""
    line = f"Replay: {result.rate('ours'):,.0f} transactions/s"
    if result.has_hadoop:
        line += f", Hadoop {result.rate('hadoop'):,.0f}"
        ratios = _ratios(result)
        line += f". Hadoop took {ratios['hadoopToOurs']:.1f} times as long"
        line += f" with {ratios['memory']:.1f} times the memory"
    yield line + "."
    yield ""


def _rows(result: MixResult, name: str) -> Iterator[str]:
    process = ("process",) if "process" in result.rounds[0][name].parts else ()
    for part in (*PARTS, "whole", *process):
        each = result.median(name, part)
        to_floor = statistics.median(
            round_[name].parts[part].seconds / round_["floor"].parts["whole"].seconds for round_ in result.rounds
        )
        ratio = f"{result.ratio('hadoop', 'ours', part):.1f}" if name == "hadoop" else ""
        yield (
            f"| {_NAMES[name]} | {part} | {each.seconds:.3f} | {each.cpu:.3f} | {each.anonymous / 1e6:,.0f} "
            f"| {to_floor:.2f} | {ratio} |"
        )


def chart(results: Sequence[MixResult]) -> str:
    """Return the chart of the seconds of the whole merge, by mix."""
    names = [name for name in ("floor", "ours", "hadoop") if name in results[0].rounds[0]]
    series = {_NAMES[name]: [result.median(name, "whole").seconds for result in results] for name in names}
    title = "A whole merge by mix and millions of inodes; +s: with snapshots"
    return bars(title, "seconds", [result.label for result in results], series)
