from __future__ import annotations

import contextlib
import os
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hadoop_common.config_key import BYTES, COUNT, FACTOR, MILLISECONDS, OPTIONAL_SWITCH, SECONDS, SWITCH, ValueType
from hadoop_common.configuration import Configuration, ConfigurationError
from hadoop_common.configuration_xml import read_properties
from hadoop_common.exit_codes import ExitCode

SITE = "hdfs-site.xml"


def xml(values: dict[str, str], *, head: str = "", extra: str = "") -> str:
    items = "".join(
        f"<property><name>{escape(key)}</name><value>{escape(value)}</value></property>"
        for key, value in values.items()
    )
    root = '<configuration xmlns:xi="http://www.w3.org/2001/XInclude">'
    return f'<?xml version="1.0"?>{head}{root}{items}{extra}</configuration>'


def load(directory: Path, text: str, environment: dict[str, str] | None = None) -> Configuration:
    (directory / SITE).write_text(text, "utf-8")
    return Configuration.load(directory, environment or {})


def given_values(values: dict[str, str], environment: dict[str, str] | None = None) -> Configuration:
    return Configuration.from_mapping(values, environment or {})


def test_later_files_override_earlier_ones(tmp_path: Path) -> None:
    (tmp_path / "core-site.xml").write_text(xml({"a": "1", "b": "1"}))
    settings = load(tmp_path, xml({"b": "2"}))
    assert (settings.get("a"), settings.get("b")) == ("1", "2")
    assert settings.source("b") == str(tmp_path / SITE)
    assert settings.source("c") == "(default)"
    assert settings.keys() == ["a", "b"]


def test_override_of_a_final_property_is_ignored_with_a_warning(tmp_path: Path) -> None:
    final = "<property><name>a</name><value>1</value><final>true</final></property>"
    (tmp_path / "core-site.xml").write_text(xml({}, extra=final))
    settings = load(tmp_path, xml({"a": "2"}))
    assert settings.get("a") == "1"
    assert any("a='2' is ignored" in warning and SITE in warning for warning in settings.warnings)


def test_properties_as_attributes_and_with_empty_values(tmp_path: Path) -> None:
    extra = (
        '<property name="a" value="1"/>'
        "<property><name>b</name><value/></property>"
        "<property><name>d</name><value> </value></property>"
        "<property><name>c</name></property>"
        "<!-- a comment --><description>ignored</description>"
    )
    settings = load(tmp_path, xml({}, extra=extra, head='<?xml-stylesheet type="text/xsl" href="configuration.xsl"?>'))
    assert settings.get("a") == "1"
    assert settings.get("d") == ""
    assert "b" not in settings
    assert "c" not in settings


def test_deprecated_names_resolve_to_the_current_name(tmp_path: Path) -> None:
    settings = load(tmp_path, xml({"fs.checkpoint.period": "60", "dfs.name.dir": "/a"}))
    assert SECONDS.read(settings, "dfs.namenode.checkpoint.period", "3600s") == 60
    assert settings.get("fs.checkpoint.period") == "60"
    assert "dfs.namenode.name.dir" in settings
    assert len(settings.warnings) == 2


# ---- variables ---------------------------------------------------------------------------------------------


def test_variables_are_nested_and_read_from_system_environment_and_keys() -> None:
    settings = given_values(
        {
            "which": "b",
            "dir.b": "/data",
            "x": "${dir.${which}}/${user.name}/${env.ZONE}/${env.NONE:-n}/${env.EMPTY-e}/${env.EMPTY:-f}",
        },
        {"USER": "hdfs", "ZONE": "z1", "EMPTY": ""},
    )
    assert settings.get("x") == "/data/hdfs/z1/n//f"


def test_unknown_variable_is_not_substituted() -> None:
    assert given_values({"x": "a${nobody}b"}).get("x") == "a${nobody}b"


@pytest.mark.parametrize("text", ["${x}", "a${x}b", "${user.name}/${x}"])
def test_value_that_refers_to_itself_is_not_substituted(text: str) -> None:
    assert given_values({"x": text, "y": "${z}/${x}", "z": "1"}, {"USER": "hdfs"}).get("x") == text


def test_variables_in_defaults_are_substituted() -> None:
    settings = given_values({"hadoop.tmp.dir": "/t"}).with_defaults({"d": "${hadoop.tmp.dir}/name"})
    assert settings.get("d") == "/t/name"
    assert "d" not in settings


def chain(length: int) -> dict[str, str]:
    return {f"v{i}": f"${{v{i + 1}}}" for i in range(length)} | {f"v{length}": "end"}


def test_variables_are_substituted_up_to_twenty_levels() -> None:
    assert given_values(chain(20)).get("v0") == "end"


@pytest.mark.parametrize("values", [chain(21), {"v0": "${v1}", "v1": "x${v0}"}])
def test_more_than_twenty_levels_of_variables_are_an_error(values: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"v0=.*nested deeper than 20"):
        given_values(values).get("v0")


# ---- XML ---------------------------------------------------------------------------------------------------


def test_document_types_of_other_hosts_are_refused(tmp_path: Path) -> None:
    head = '<!DOCTYPE configuration SYSTEM "http://example.invalid/x.dtd">'
    with pytest.raises(ConfigurationError, match=r"x.dtd' is not a local file") as caught:
        load(tmp_path, xml({"a": "1"}, head=head))
    assert caught.value.exit_code == ExitCode.USAGE
    assert SITE in caught.value.message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<configuration>", "not well-formed XML"),
        ("", "not well-formed XML"),
        ("<settings/>", "root element is <settings>"),
        ("<configuration>&undefined;</configuration>", "not well-formed XML"),
    ],
)
def test_invalid_xml_is_an_error(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        load(tmp_path, text)


def test_faults_of_all_files_are_reported(tmp_path: Path) -> None:
    (tmp_path / "core-site.xml").write_text("<a/>")
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, "<b/>")
    assert len(caught.value.faults) == 2


def test_dangling_link_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "core-site.xml").write_text(xml({"a": "1"}))
    (tmp_path / SITE).symlink_to(tmp_path / "moved.xml")
    with pytest.raises(ConfigurationError, match=f"{SITE}: cannot be read: No such file"):
        Configuration.load(tmp_path, {})


@pytest.mark.parametrize("name", [SITE, "included.xml"])
def test_fifo_instead_of_a_file_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / SITE).write_text(xml({}, extra='<xi:include href="included.xml"/>'))
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises(ConfigurationError, match=rf"{name}: cannot be read: it is a FIFO"):
        Configuration.load(tmp_path, {})


def test_directory_without_configuration_files_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"neither core-site.xml nor hdfs-site.xml"):
        Configuration.load(tmp_path, {})


def test_local_files_are_included(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "common.xml").write_text(xml({"a": "included", "b": "included"}))
    settings = load(tmp_path, xml({"b": "first"}, extra='<xi:include href="more/common.xml"/>'))
    assert settings.get("a") == settings.get("b") == "included"
    assert settings.source("a").endswith("common.xml")


@pytest.mark.parametrize(
    ("include", "problem"),
    [
        ('<xi:include href="absent.xml"/>', "cannot be read"),
        ('<xi:include href="http://127.0.0.1:1/x.xml"/>', "cannot be read"),
        ('<xi:include href="file://host/x.xml"/>', "not a local file"),
        ('<xi:include href=""/>', "empty href"),
        (f'<xi:include href="{SITE}"/>', "is circular"),
    ],
)
def test_unsupported_includes_are_refused(tmp_path: Path, include: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        load(tmp_path, xml({}, extra=include))


def test_fallback_is_not_used_for_an_unreadable_include(tmp_path: Path) -> None:
    (tmp_path / "a.xml").mkdir()
    fallback = '<xi:fallback><property name="a" value="1"/></xi:fallback>'
    with pytest.raises(ConfigurationError, match=r"a.xml: cannot be read"):
        load(tmp_path, xml({}, extra=f'<xi:include href="a.xml">{fallback}</xi:include>'))


XML_TEXT = st.text(st.characters(min_codepoint=0x20, exclude_categories=["Cs", "Cn"]), max_size=30)
KEYS = st.text("abcdefghijklmnopqrstuvwxyz.-", min_size=1, max_size=20)


@given(st.dictionaries(KEYS, XML_TEXT, max_size=5))
def test_properties_round_trip(values: dict[str, str]) -> None:
    data = xml(values).encode("utf-8")
    read = read_properties(Path("site.xml"), lambda _: data)
    expected = {key: value.replace("\r\n", "\n").replace("\r", "\n") for key, value in values.items()}
    assert {each.name: each.value or "" for each in read} == expected


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_or_refused(data: bytes) -> None:
    with contextlib.suppress(ConfigurationError):
        read_properties(Path("site.xml"), lambda _: data)


# ---- getters -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5", 5e-3), ("5ns", 5e-9), ("5us", 5e-6), ("5ms", 5e-3), ("5s", 5), ("2m", 120), ("1h", 3600), ("1d", 86400)],
)
def test_times_with_units(text: str, seconds: float) -> None:
    assert MILLISECONDS.read(given_values({"t": f" {text} "}), "t", "") == pytest.approx(seconds)


def test_time_defaults_may_have_units() -> None:
    assert SECONDS.read(given_values({}), "t", "3600s") == 3600


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("64k", 65536), ("1M", 1 << 20), ("2g", 2 << 30), ("1t", 1 << 40), ("1P", 1 << 50)]
)
def test_sizes_with_units(text: str, size: int) -> None:
    assert BYTES.read(given_values({"s": text}), "s", "") == size


def test_values_of_other_types() -> None:
    settings = given_values({"i": "0x10", "f": "1.5", "b": "TRUE", "l": " a, ,b,", "n": "-3"})
    assert COUNT.read(settings, "i", "") == 16
    assert COUNT.read(settings, "n", "") == -3
    assert FACTOR.read(settings, "f", "") == 1.5
    assert SWITCH.read(settings, "b", "") is True
    assert settings.get_list("l") == ["a", "b"]
    assert settings.get_list("absent") == []
    lines = given_values({"d": "file:///data/1\n  /data/2,\n/data/3"})
    assert lines.get_path_list("d") == [Path("/data/1"), Path("/data/2"), Path("/data/3")]
    assert settings.get("absent", "x") == "x"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (COUNT, "1.5"),
        (COUNT, "1_0"),
        (FACTOR, "nan"),
        (COUNT, "4294967297"),
        (SECONDS, "1 h"),
        (SECONDS, "1.5s"),
        (SECONDS, "5 parsecs"),
        (BYTES, "64kb"),
        (BYTES, "9223372036854775807k"),
        (COUNT, "9223372036854775808"),
        (SECONDS, "9" * 400),
        (FACTOR, "1e999"),
    ],
)
def test_faults_name_file_key_and_value(tmp_path: Path, kind: ValueType[object], value: str) -> None:
    settings = load(tmp_path, xml({"some.key": value}))
    with pytest.raises(ConfigurationError) as caught:
        kind.read(settings, "some.key", "")
    (fault,) = caught.value.faults
    assert (fault.source, fault.key, fault.value) == (str(tmp_path / SITE), "some.key", value)
    assert "some.key" in caught.value.message


@pytest.mark.parametrize(("value", "warned"), [(" ", False), ("yes", True), ("TRUE", False)])
def test_boolean_is_read_as_in_hadoop(tmp_path: Path, value: str, warned: bool) -> None:
    settings = load(tmp_path, xml({"some.key": value, "checkpointer.key": value}))
    assert SWITCH.read(settings, "some.key", "false") is (value == "TRUE")
    assert SWITCH.read(settings, "some.key", "true") is True
    assert OPTIONAL_SWITCH.read(settings, "some.key", "") is (True if value == "TRUE" else None)
    assert any("some.key='yes': is neither true nor false" in each for each in settings.warnings) is warned
    if value != "TRUE":
        with pytest.raises(ConfigurationError):
            SWITCH.read(settings, "checkpointer.key", "false")


def test_setting_without_a_default_is_required() -> None:
    with pytest.raises(ConfigurationError, match="wanted: is not set"):
        COUNT.read(given_values({}), "wanted", "")


def test_path_lists_accept_uris_and_drop_duplicates() -> None:
    settings = given_values({"d": "file:///data/a%20b, /data/c,file:/data/d,/data/c"})
    assert settings.get_path_list("d") == [Path("/data/a b"), Path("/data/c"), Path("/data/d")]
    assert settings.warnings == ()


@pytest.mark.parametrize("text", ["file:///data/a b", "file:/data/100%", "file:///data/%2", "file:///data/<a>"])
def test_directory_that_hadoop_does_not_read_as_a_uri_is_warned_about(text: str) -> None:
    settings = given_values({"d": text})
    (path,) = settings.get_path_list("d")
    assert path.parent == Path("/data")
    assert "is not a URI" in settings.warnings[0]


def test_all_bad_paths_are_reported() -> None:
    settings = given_values({"d": "relative,/good,hdfs://nn/x,file://host/x,/${unset}"})
    with pytest.raises(ConfigurationError) as caught:
        settings.get_path_list("d")
    assert [fault.value for fault in caught.value.faults] == ["relative", "hdfs://nn/x", "file://host/x", "/${unset}"]
