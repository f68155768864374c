"""Bean names and patterns; the tables were checked against javax.management.ObjectName of Java 17."""

from __future__ import annotations

import fnmatch
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servlets.object_name import MalformedObjectNameError, ObjectName, parse_object_name

BEAN = parse_object_name("Hadoop:service=NameNode,name=FSNamesystem")


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("", True),
        ("*:*", True),
        ("Hadoop:*", True),
        ("Hadoop:service=NameNode,name=*", True),
        ("Hadoop:name=FSNamesystem,service=NameNode", True),
        ("Hadoop:service=NameNode", False),
        ("Hadoop:service=NameNode,*", True),
        ("Hadoop:*,service=NameNode", True),
        ("Hadoop:*,name=FS*", True),
        ("H?doop:*", True),
        ("hadoop:*", False),
        ("Hadoop:service=NameNode,name=FSNamesystem,*", True),
        ("Hadoop:service=NameNode,name=FSNamesystem,more=*", False),
        ("a:b=", False),
        (":b=c", False),
        ('a:b="x"', False),
        ("a: b=c", False),
        ("a:b=c,*,d=e", False),
        ("a:b=?", False),
        ("a:b= c ", False),
        ("JMImplementation:type=MBeanServerDelegate", False),
    ],
)
def test_patterns_match_names(pattern, matches):
    assert parse_object_name(pattern).matches(BEAN) is matches


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        (r'a:b="x\*"', r'a:b="x\*"', True),
        (r'a:b="x\*"', 'a:b="xyz"', False),
        ('a:b="x*"', 'a:b="xyz"', True),
        ("a:b=x*", 'a:b="xyz"', False),
        ("a:b=*", 'a:b="xyz"', True),
        ('a:b="x,y=*"', 'a:b="x,y=z"', True),
    ],
)
def test_patterns_match_quoted_values(pattern, name, matches):
    assert parse_object_name(pattern).matches(parse_object_name(name)) is matches


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "*",
        "a:",
        "a:b",
        "a:b=c,",
        "a:=c",
        "a:b=c,b=d",
        "a:b=c=d",
        "a:b=c:d",
        "a:*,*",
        "a:*b=c",
        'a:b="x',
        'a:b="x"y',
        r'a:b="x\y"',
        "a:b*=c",
        'a:b=x"y',
        "a\n:b=c",
        "a:b=c\n",
        "a:,b=c",
        "a:b=c,,d=e",
    ],
)
def test_malformed_names_are_refused(text):
    with pytest.raises(MalformedObjectNameError):
        parse_object_name(text)


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text):
    try:
        name = parse_object_name(text)
    except MalformedObjectNameError:
        return
    assert name.matches(name) or "\\" in text


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=8))
def test_wildcards_match_like_those_of_a_shell(pattern, text):
    expected = re.compile(fnmatch.translate(pattern)).match(text) is not None
    assert ObjectName(pattern, {}, more=True).matches(ObjectName(text, {"a": "b"})) is expected


def test_a_hostile_pattern_is_matched_quickly():
    assert not ObjectName("*a" * 2000 + "b", {}, more=True).matches(ObjectName("a" * 2000, {}))
