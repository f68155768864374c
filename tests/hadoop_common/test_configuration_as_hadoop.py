"""Configuration files, and the values that the Configuration class of Hadoop 3.5.0 reads from them.

If Hadoop 3.5.0 refuses a file, the values are those of Hadoop 2.7.3. All values were recorded from the real classes,
with `hdfs-site.xml` on the class path.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hadoop_common.configuration import Configuration, ConfigurationError
from hadoop_common.configuration_xml import read_properties
from hadoop_common.hadoop_keys import DEPRECATED_KEYS, SET_BY_HDFS_DEFAULT
from site_config.catalogue import CATALOGUE
from tests.web_server import QuietHandler, web_server

_XI = 'xmlns:xi="http://www.w3.org/2001/XInclude"'
_SITE = "hdfs-site.xml"


def _p(name: str, value: str, rest: str = "") -> str:
    return f"<property><name>{name}</name><value>{value}</value>{rest}</property>"


def _conf(*parts: str) -> str:
    return f"<configuration {_XI}>{''.join(parts)}</configuration>"


def _include(href: str, fallback: str | None = None) -> str:
    inner = "" if fallback is None else f"<xi:fallback>{fallback}</xi:fallback>"
    return f'<xi:include href="{href}">{inner}</xi:include>'


_FINAL = "<final>true</final>"
_A = {"a.xml": _conf(_p("a", "1"))}
_TEXT = '<xi:include href="v.txt" parse="text"/>'

_READ: dict[str, tuple[str, dict[str, str], dict[str, str]]] = {
    "an empty value sets nothing": (_conf(_p("a", "1"), _p("a", ""), _p("b", "")), {}, {"a": "1"}),
    "final is exactly true": (
        _conf(
            _p("a", "1", "<final>TRUE</final>"),
            _p("a", "2"),
            _p("b", "1", "<final> true </final>"),
            _p("b", "2"),
            _p("c", "1", _FINAL),
            _p("c", "2"),
        ),
        {},
        {"a": "2", "b": "2", "c": "1"},
    ),
    "final without a value": (_conf(f"<property><name>a</name>{_FINAL}</property>", _p("a", "2")), {}, {}),
    "no name": (_conf("<property><value>1</value></property>", _p("z", "1")), {}, {"z": "1"}),
    "the last value that is not empty": (
        _conf(
            "<property><name>a</name><value>1</value><value>2</value></property>",
            "<property><name>b</name><value>1</value><value/></property>",
        ),
        {},
        {"a": "2", "b": "1"},
    ),
    "the last name": (_conf("<property><name>a</name><name>b</name><value>1</value></property>"), {}, {"b": "1"}),
    "CDATA, comments, instructions and elements in a value": (
        _conf(
            _p("a", "<![CDATA[x<y]]>"),
            _p("b", "p<![CDATA[q]]>r"),
            _p("c", "x<!-- c -->y"),
            _p("d", "x<?foo bar?>y"),
            _p("e", "x<b>q</b>y"),
        ),
        {},
        {"a": "x<y", "b": "pqr", "c": "xy", "d": "xy", "e": "xqy"},
    ),
    "attributes": (
        _conf(
            '<property name="a" value="1" final="true"/>',
            '<property name="b" value="1"><value>2</value></property>',
            '<property name="a" value="3"/>',
        ),
        {},
        {"a": "1", "b": "2"},
    ),
    "another root": (f"<foo>{_p('a', '1')}</foo>", {}, {"a": "1"}),
    "a property as root": (_p("a", "1"), {}, {"a": "1"}),
    "nested elements": (
        _conf(f"<configuration>{_p('a', '1')}</configuration><foo>{_p('b', '1')}</foo>"),
        {},
        {"a": "1", "b": "1"},
    ),
    "a name space": (
        (
            '<c:configuration xmlns:c="urn:x"><c:property><c:name>a</c:name><c:value>1</c:value></c:property>'
            "</c:configuration>"
        ),
        {},
        {"a": "1"},
    ),
    "a plain DOCTYPE": ("<!DOCTYPE configuration>" + _conf(_p("a", "1")), {}, {"a": "1"}),
    "entities": (
        '<!DOCTYPE configuration [<!ENTITY e "val"><!ENTITY p "'
        "<property><name>q</name><value>7</value></property>"
        '">]>' + _conf("&p;", _p("a", "x&e;y")),
        {},
        {"a": "xvaly", "q": "7"},
    ),
    "a DTD next to the file": (
        '<!DOCTYPE configuration SYSTEM "c.dtd">' + _conf(_p("a", "x&e;y")),
        {"c.dtd": '<!ENTITY e "val">'},
        {"a": "xvaly"},
    ),
    "entities of files": (
        '<!DOCTYPE configuration [<!ENTITY e SYSTEM "x.txt"><!ENTITY p SYSTEM "e.xml">]>'
        + _conf("&p;", _p("a", "x&e;y")),
        {"x.txt": "ext", "e.xml": _p("q", "7")},
        {"a": "xexty", "q": "7"},
    ),
    "defaults of attributes": (
        '<!DOCTYPE configuration [<!ATTLIST property final CDATA "true">]>' + _conf(_p("a", "1"), _p("a", "2")),
        {},
        {"a": "1"},
    ),
    "an include with another root": (
        _conf(_include("a.xml"), _include("b.xml")),
        {"a.xml": _p("a", "1"), "b.xml": f"<foo>{_p('b', '1')}</foo>"},
        {"a": "1", "b": "1"},
    ),
    "an include has its place in the order": (
        _conf(_p("a", "0"), _include("a.xml"), _p("b", "0")),
        {"a.xml": _conf(_p("a", "1"), _p("b", "1"))},
        {"a": "1", "b": "0"},
    ),
    "a fallback": (_conf(_include("no.xml", _p("f", "1")), _p("b", "1")), {}, {"b": "1", "f": "1"}),
    "an empty fallback": (_conf(_include("no.xml", ""), _p("b", "1")), {}, {"b": "1"}),
    "a fallback that is not needed": (_conf(_include("a.xml", _p("f", "1")), _p("b", "1")), _A, {"a": "1", "b": "1"}),
    "a fallback of a server that does not answer": (
        _conf(_include("http://127.0.0.1:1/x.xml", _p("f", "1"))),
        {},
        {"f": "1"},
    ),
    "a fallback of a URL of a file, and of what is none": (
        _conf(_include("file:///nobody/nope.xml", _p("f", "1")), _include("${foo}.xml", _p("g", "1"))),
        {},
        {"f": "1", "g": "1"},
    ),
    "an include in a fallback": (_conf(_include("no.xml", _include("a.xml") + _p("f", "1"))), _A, {"a": "1", "f": "1"}),
    "a fallback in a fallback": (
        _conf(_include("no.xml", _p("e", "1") + _include("no2.xml", _p("f", "1")) + _p("g", "1"))),
        {},
        {"e": "1", "f": "1", "g": "1"},
    ),
    "an include in a fallback that is not needed is read all the same": (
        _conf(_include("b.xml", _include("a.xml") + _p("f", "1"))),
        {**_A, "b.xml": _conf(_p("b", "1"))},
        {"a": "1", "b": "1", "f": "1"},
    ),
    "a fallback in a value": (_conf(_p("a", _include("no.xml", "dflt"))), {}, {"a": "dflt"}),
    "an include within a property": (
        _conf("<property><name>a</name>", _include("v.xml"), "</property>"),
        {"v.xml": "<value>5</value>"},
        {},
    ),
    "no href, and an xpointer": (
        _conf("<xi:include/>", '<xi:include xpointer="element(/1/2)" href="a.xml"/>'),
        _A,
        {"a": "1"},
    ),
    "no name space of XInclude": ('<configuration><include href="a.xml"/></configuration>', _A, {"a": "1"}),
    "an href in an included file is searched next to hdfs-site.xml": (
        _conf(_include("sub/a.xml")),
        {"sub/a.xml": _conf(_include("b.xml")), "sub/b.xml": _conf(_p("b", "sub")), "b.xml": _conf(_p("b", "top"))},
        {"b": "top"},
    ),
    "and its fallback goes before a file next to itself": (
        _conf(_include("sub/a.xml")),
        {"sub/a.xml": _conf(_include("b.xml", _p("b", "fallback"))), "sub/b.xml": _conf(_p("b", "sub"))},
        {"b": "fallback"},
    ),
    "a name with a space": (_conf(_include("a b.xml")), {"a b.xml": _conf(_p("a", "1"))}, {"a": "1"}),
    "2.7.3: an escaped space": (_conf(_include("a%20b.xml")), {"a b.xml": _conf(_p("a", "1"))}, {"a": "1"}),
    "2.7.3: next to the including file": (
        _conf(_include("sub/a.xml")),
        {"sub/a.xml": _conf(_include("c.xml")), "sub/c.xml": _conf(_p("c", "sub"))},
        {"c": "sub"},
    ),
    "2.7.3: a text in a value": (_conf(_p("a", f"p{_TEXT}q")), {"v.txt": "hello"}, {"a": "phelloq"}),
    "2.7.3: the fallback of a text": (
        _conf(_p("a", '<xi:include href="v.txt" parse="text"><xi:fallback>f</xi:fallback></xi:include>')),
        {"v.txt": "hello"},
        {"a": "hello"},
    ),
}


@pytest.mark.parametrize("name", _READ)
def test_files_are_read_as_in_hadoop(tmp_path: Path, name: str) -> None:
    site, files, expected = _READ[name]
    for file, text in {_SITE: site, **files}.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    found = Configuration(read_properties(tmp_path / _SITE), {})
    assert {key: found.get(key) for key in found.keys()} == expected  # noqa: SIM118 - no mapping


@pytest.mark.parametrize(
    ("site", "problem"),
    [
        ('<!DOCTYPE configuration SYSTEM "missing.dtd">' + _conf(), "missing.dtd: cannot be read"),
        (_conf(_p("a", "&e;")), "undefined entity"),
        ('<!DOCTYPE configuration SYSTEM "empty.dtd">' + _conf(_p("a", "&e;")), "undefined entity|is not declared"),
        (_conf(_include("bad.xml", _p("f", "1"))), "bad.xml: is not well-formed"),
        (_conf() + "garbage", "not well-formed"),
    ],
)
def test_files_that_hadoop_refuses_are_an_error(tmp_path: Path, site: str, problem: str) -> None:
    (tmp_path / "empty.dtd").write_text("")
    (tmp_path / "bad.xml").write_text("<configuration>")
    (tmp_path / _SITE).write_text(site)
    with pytest.raises(ConfigurationError, match=problem):
        read_properties(tmp_path / _SITE)


def test_entity_expansion_attack_is_refused(tmp_path: Path) -> None:
    entities = "".join(f'<!ENTITY {chr(98 + at)} "{f"&{chr(97 + at)};" * 10}">' for at in range(8))
    (tmp_path / _SITE).write_text(f'<!DOCTYPE c [<!ENTITY a "0123456789">{entities}]>' + _conf(_p("a", "&i;")))
    with pytest.raises(ConfigurationError, match="amplification"):
        read_properties(tmp_path / _SITE)


class _Site(QuietHandler):
    def get(self) -> None:
        self.answer(*((200, _A["a.xml"].encode()) if self.path == "/a.xml" else (404,)))


def test_includes_are_read_from_web_servers(tmp_path: Path) -> None:
    with web_server(_Site) as port:
        web = f"http://127.0.0.1:{port}"
        (tmp_path / _SITE).write_text(
            _conf(_include(f"{web}/a.xml", _p("f", "1")), _include(f"{web}/no.xml", _p("g", "1")))
        )
        assert [each.name for each in read_properties(tmp_path / _SITE)] == ["a", "g"]


# ---- hdfs-default.xml between core-site.xml and hdfs-site.xml -----------------------------------------------

_PERIOD, _SERVICES = "dfs.namenode.checkpoint.period", "dfs.nameservices"


def _load(folder: Path, core: str, hdfs: str) -> Configuration:
    (folder / "core-site.xml").write_text(_conf(core))
    (folder / _SITE).write_text(_conf(hdfs))
    return Configuration.load(folder, {}).with_defaults({_PERIOD: "3600s"})


def test_keys_set_by_hdfs_default_are_ignored_in_core_site(tmp_path: Path) -> None:
    found = _load(tmp_path, _p(_PERIOD, "600") + _p(_SERVICES, "ns1") + _p("dfs.other", "x"), "")
    assert (found.get(_PERIOD), found.get(_SERVICES), found.get("dfs.other")) == ("3600s", "ns1", "x")
    (warning,) = found.warnings
    assert f"{_PERIOD}='600' is ignored, also by NameNodes" in warning
    assert "core-site.xml" in warning


def test_deprecated_names_of_hdfs_default_keys_are_ignored_in_core_site(tmp_path: Path) -> None:
    found = _load(tmp_path, _p("fs.checkpoint.period", "600"), "")
    assert found.get(_PERIOD) == "3600s"
    assert [f"{_PERIOD}='600' is ignored" in each for each in found.warnings] == [False, True]


def test_final_property_of_core_site_is_applied(tmp_path: Path) -> None:
    assert _load(tmp_path, _p(_PERIOD, "600", _FINAL), _p(_PERIOD, "700")).get(_PERIOD) == "600"


def test_file_of_the_routers_overrides_hdfs_site(tmp_path: Path) -> None:
    """NameNodes of Hadoop 3.3.6 and 3.5.0 also read this file, which is next to `hdfs-site.xml`."""
    (tmp_path / "hdfs-rbf-site.xml").write_text(_conf(_p(_PERIOD, "900"), _p(_SERVICES, "ns2")))
    found = _load(tmp_path, "", _p(_PERIOD, "700") + _p(_SERVICES, "ns1", _FINAL))
    assert (found.get(_PERIOD), found.get(_SERVICES)) == ("900", "ns1")
    assert found.source(_PERIOD) == str(tmp_path / "hdfs-rbf-site.xml")
    changed, ignored = sorted(found.warnings)
    assert f"{_PERIOD}='900' overrides '700' in {tmp_path / _SITE}; NameNodes before Hadoop 3.3" in changed
    assert f"{_SERVICES}='ns2' is ignored: it is final" in ignored


def test_file_of_the_routers_without_other_values_causes_no_warning(tmp_path: Path) -> None:
    (tmp_path / "hdfs-rbf-site.xml").write_text(_conf(_p(_PERIOD, "700"), _p("dfs.federation.router.x", "1")))
    assert _load(tmp_path, "", _p(_PERIOD, "700")).warnings == ()


def test_key_of_one_namenode_is_applied_in_core_site(tmp_path: Path) -> None:
    key = "dfs.namenode.http-address.ns1.nn1"
    assert _load(tmp_path, _p(key, "host:1"), "").get(key) == "host:1"
    assert key.removesuffix(".ns1.nn1") in SET_BY_HDFS_DEFAULT


# ---- deprecated names --------------------------------------------------------------------------------------

_DEPRECATED_IN_HADOOP = """
    dfs.access.time.precision dfs.namenode.accesstime.precision
    dfs.backup.address dfs.namenode.backup.address
    dfs.backup.http.address dfs.namenode.backup.http-address
    dfs.balance.bandwidthPerSec dfs.datanode.balance.bandwidthPerSec
    dfs.block.size dfs.blocksize
    dfs.data.dir dfs.datanode.data.dir
    dfs.datanode.max.xcievers dfs.datanode.max.transfer.threads
    dfs.df.interval fs.df.interval
    dfs.encryption.key.provider.uri hadoop.security.key.provider.path
    dfs.federation.nameservice.id dfs.nameservice.id
    dfs.federation.nameservices dfs.nameservices
    dfs.http.address dfs.namenode.http-address
    dfs.https.address dfs.namenode.https-address
    dfs.https.client.keystore.resource dfs.client.https.keystore.resource
    dfs.https.need.client.auth dfs.client.https.need-auth
    dfs.max-repl-streams dfs.namenode.replication.max-streams
    dfs.max.objects dfs.namenode.max.objects
    dfs.name.dir dfs.namenode.name.dir
    dfs.name.dir.restore dfs.namenode.name.dir.restore
    dfs.name.edits.dir dfs.namenode.edits.dir
    dfs.permissions dfs.permissions.enabled
    dfs.permissions.supergroup dfs.permissions.superusergroup
    dfs.read.prefetch.size dfs.client.read.prefetch.size
    dfs.replication.min dfs.namenode.replication.min
    dfs.safemode.extension dfs.namenode.safemode.extension
    dfs.safemode.threshold.pct dfs.namenode.safemode.threshold-pct
    dfs.secondary.http.address dfs.namenode.secondary.http-address
    dfs.socket.timeout dfs.client.socket-timeout
    dfs.umaskmode fs.permissions.umask-mode
    dfs.write.packet.size dfs.client-write-packet-size
    fs.checkpoint.dir dfs.namenode.checkpoint.dir
    fs.checkpoint.edits.dir dfs.namenode.checkpoint.edits.dir
    fs.checkpoint.period dfs.namenode.checkpoint.period
    fs.default.name fs.defaultFS
    heartbeat.recheck.interval dfs.namenode.heartbeat.recheck-interval
    io.bytes.per.checksum dfs.bytes-per-checksum
    session.id dfs.metrics.session-id
    slave.host.name dfs.datanode.hostname
"""


def test_every_deprecated_name_of_a_key_is_known() -> None:
    known = {key.name for key in CATALOGUE} | {"dfs.datanode.data.dir"}
    pairs = (line.split() for line in _DEPRECATED_IN_HADOOP.strip().splitlines())
    assert {old: new for old, new in pairs if new in known} == DEPRECATED_KEYS
