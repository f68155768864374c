"""Text for human readers: 80 columns without broken words, plain lines in a pipe, and no colour when it is disabled."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkpointer.cli import config_command
from hadoop_common.cli import output
from hadoop_common.cli.output import coloured
from hadoop_common.text_layout import table_lines, wrapped
from pipeline.reports.writers.terminal import report_lines
from tests.cli_runner import run_cli
from tests.depth import examples
from tests.pipeline.sample_report import sample_report

CONFIG = Path(__file__).parents[2] / "config"
WORD = st.text("abc/-", min_size=1, max_size=30)


def test_table_on_a_terminal_and_in_a_pipe() -> None:
    rows = [["/data", "1.0 TiB", "7"], ["/user/somebody", "20.0 GiB", "1,000"]]
    assert table_lines(["Directory", "Space with replicas", "Files"], rows, right=[False, True, True], width=80) == [
        "   Space",
        "    with",
        "replicas  Files  Directory",
        " 1.0 TiB      7  /data",
        "20.0 GiB  1,000  /user/somebody",
    ]
    in_a_pipe = table_lines(["Directory", "Space with replicas", "Files"], rows, right=[False, True, True], width=None)
    assert in_a_pipe[0].split("  ") == ["Space with replicas", "Files", "Directory"]
    assert len(in_a_pipe) == 1 + len(rows)
    narrow = table_lines(["Directory", "Space", "Files"], rows, right=[False, True, True], width=20)
    assert narrow[-2:] == ["20.0 GiB  1,000", "  /user/somebody"]


@examples(100)
@given(st.lists(st.tuples(WORD, WORD, st.integers(0, 10**9)), max_size=5), st.one_of(st.none(), st.integers(20, 200)))
def test_table_cells_are_neither_split_nor_lost(rows: list[tuple[str, str, int]], width: int | None) -> None:
    cells = [[first, second, str(number)] for first, second, number in rows]
    lines = table_lines(["a title", "another one", "count"], cells, right=[False, False, True], width=width)
    words = [word for line in lines for word in line.split()]
    assert sorted(words) == sorted(
        [*["a", "title", "another", "one", "count"], *(cell for row in cells for cell in row)]
    )


def test_text_is_wrapped_between_words_on_terminals_only() -> None:
    text = "one two three four five six seven"
    assert wrapped("label   ", text, 20) == [
        "label   one two",
        *(["        " + w for w in ("three four", "five six", "seven")]),
    ]
    assert wrapped("label   ", text, None) == [f"label   {text}"]
    long = "/a/directory-with-a-name/of-one-word"
    assert wrapped("x ", long, 10) == [f"x {long}"]


def test_no_color_variable_disables_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert coloured("refused", "red") == click.style("refused", fg="red")
    monkeypatch.setenv("NO_COLOR", "1")
    assert coloured("refused", "red") == "refused"


def test_control_characters_in_names_are_escaped() -> None:
    assert table_lines(["name"], [["a\x1b[2Jb\nc"]], right=[False], width=80) == ["name", r"a\x1b[2Jb\nc"]


def test_report_fits_80_columns() -> None:
    wide = [line for line in report_lines(sample_report(), 80) if len(line) > 80]
    # only a single word, such as a path, may be wider
    assert all(len(line.split()) == 1 for line in wide)


def test_configuration_table_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    in_a_pipe = run_cli("config", "--conf", CONFIG / "standby", "--role", "standby").out.splitlines()
    assert sum(line.startswith(("supported ", "ignored ", "refused ")) for line in in_a_pipe) == len(in_a_pipe) - 3
    monkeypatch.setattr(config_command, "terminal_width", lambda: 80)
    on_a_terminal = run_cli("config", "--conf", CONFIG / "standby", "--role", "standby").out.splitlines()
    assert all(len(line) <= 80 or len(line.split()) <= 2 for line in on_a_terminal)
    assert " ".join(" ".join(on_a_terminal).split()) == " ".join(" ".join(in_a_pipe).split())


def test_pipe_has_no_terminal_width() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        patch.setattr(output.sys.stdout, "isatty", lambda: False, raising=False)
        assert output.terminal_width() is None
