"""The wording checker: its findings are complete although it parses only sources in which a rule may match."""

from __future__ import annotations

from pathlib import Path

import pytest

from hadoop_common.quantities import counted
from tests.tools.plurals import fixed_plurals, is_product, known_nouns
from tests.tools.wording import findings

SOURCE = Path("checkpointer/x.py")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"""The image\n\nis told."""', [(3, "is told")]),
        ('x = "it is "\ny = ("who asks is "\n     "told")', [(2, "is told")]),
        ("x = 1  # Meanwhile it runs", [(1, "Meanwhile")]),
        ('x = "Who finds it waits. What is not listed is missing"', [(1, "Who finds"), (1, ". What is")]),
        ('x = "`is told` and `who leads`"', []),
        ('x = "It is lost: what is it?"', []),
        ("is_told = 1", []),
        ('def f():\n    """The number."""', [(2, "The")]),
        ('@property\ndef f(self):\n    """The number."""', []),
        ('def test_f():\n    """The number is 1."""', []),
        ('"""Return first and last txid; less than two bits."""', [(1, "Return first and"), (1, "less than two bits")]),
        ('x = "another size than y, beside it"', [(1, "beside"), (1, "another size than")]),
    ],
)
def test_phrases_in_docstrings_comments_and_constants(text: str, found: list[tuple[int, str]]) -> None:
    assert [(each.line, each.phrase) for each in findings(SOURCE, text)] == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('f"{len(a)} segments are here"', ["{len(a)} segments"]),
        ('f"{x.gap:,} lost pasts"', ["{x.gap} lost pasts"]),
        ('f"in {name} "\nf"{count} directories"', ["{count} directories"]),
        ('f"{1} of {total} segments"', []),
        ('f"{MAX_OPEN} segments and {self._MAX} segments"', []),
        ('f"{name} segments, {seconds:.1f} segments, {size} bytes"', []),
        ("f\"{path} changes, {counted(n, 'segment')}, {n} segment, {n} segments'\"", []),
        ('f"{len(found)} changes"', ["{len(found)} changes"]),
        ('f"{count} strangers"', []),
    ],
)
def test_fixed_plurals_after_counts_are_found(text: str, found: list[str]) -> None:
    nouns = known_nouns(
        ["counted(n, 'segment') counted(len(a), \"lost past\")", "counted(1, 'directory') counted(2, 'change')"]
    )
    assert [each.text for each in fixed_plurals(text, nouns)] == found


def test_messages_of_the_stub_in_hadoops_words_are_not_checked() -> None:
    assert [is_product(Path(path)) for path in ("namenode_stub/names/limits.py", "tests/x.py")] == [False, False]
    assert is_product(SOURCE)


def test_counted_uses_the_plural_of_its_noun() -> None:
    assert [counted(1, "entry"), counted(0, "key"), counted(2, "directory")] == ["1 entry", "0 keys", "2 directories"]
    assert [counted(1000, "match", ","), counted(3, "bookie")] == ["1,000 matches", "3 bookies"]
