"""Configurations of kerberized clusters, for Hadoop's processes and for ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.interop.hadoop_conf import HadoopConf
from tests.interop.hadoop_home import SERVER
from tests.kerberos.kdc import REALM, Kdc
from tests.tls.hadoop_tls import https_only

HOST = "localhost"
PRINCIPALS = ("nn", "sn", "jn", "HTTP")
_MODULES = "java.security.jgss/sun.security.jgss=ALL-UNNAMED"


def java_options(kdc: Kdc) -> str:
    """Return the value of JAVA_TOOL_OPTIONS for Hadoop's processes."""
    return f"-Djava.security.krb5.conf={kdc.krb5_conf} --add-exports={_MODULES}"


def add_principals(kdc: Kdc) -> None:
    """Add the servers' principals, each with a separate keytab, and add the keys of HTTP to all keytabs."""
    kdc.add(*(f"{service}/{HOST}" for service in PRINCIPALS))
    for service in ("nn", "sn", "jn"):
        kdc.keytab(f"{service}.keytab", f"{service}/{HOST}", f"HTTP/{HOST}")


def secure(kdc: Kdc, conf: HadoopConf, properties: Mapping[str, str] | None = None) -> HadoopConf:
    """Add Kerberos to `conf`, with every server at `HOST`, because principals contain host names."""
    named = {key: value.replace("127.0.0.1", HOST) for key, value in conf.properties.items()}
    web = _web_logins(kdc) if conf.release.is_3 else {}
    conf.update({**named, **_kerberos(kdc), **web, **(properties or {})})
    return conf


def secure_conf(kdc: Kdc, root: Path, properties: Mapping[str, str] | None = None) -> HadoopConf:
    """Return a NameNode's configuration with a SecondaryNameNode; both principals map to the superuser."""
    return secure(kdc, HadoopConf(root), properties)


def private(
    kdc: Kdc, conf: HadoopConf, properties: Mapping[str, str] | None = None, like: HadoopConf | None = None
) -> HadoopConf:
    """Add Kerberos and privacy to `conf`, with HTTPS only; the https addresses are copied from `like`."""
    return secure(kdc, https_only(conf, like), {"hadoop.rpc.protection": "privacy", **(properties or {})})


def short_names() -> dict[str, str]:
    """Return name rules with which JournalNodes serve segments to NameNodes.

    JournalNodes of Hadoop 3.3 and newer compare short names, so both principals need the same short name.
    """
    if SERVER.numbers < (3, 3):
        return {}
    return {"hadoop.security.auth_to_local": f"RULE:[2:$1@$0]([jns]n@{REALM})s/.*/hdfs/\nDEFAULT"}


def _kerberos(kdc: Kdc) -> dict[str, str]:
    web = f"HTTP/_HOST@{REALM}"
    return {
        "hadoop.security.authentication": "kerberos",
        "hadoop.security.authorization": "true",
        "hadoop.security.auth_to_local": f"RULE:[2:$1@$0]([ns]n@{REALM})s/.*/hdfs/\nDEFAULT",
        "hadoop.rpc.protection": "authentication,integrity,privacy",
        "dfs.block.access.token.enable": "true",
        "dfs.namenode.kerberos.principal": f"nn/_HOST@{REALM}",
        "dfs.namenode.keytab.file": str(kdc.root / "nn.keytab"),
        "dfs.namenode.kerberos.internal.spnego.principal": web,
        "dfs.secondary.namenode.kerberos.principal": f"sn/_HOST@{REALM}",
        "dfs.secondary.namenode.keytab.file": str(kdc.root / "sn.keytab"),
        "dfs.secondary.namenode.kerberos.internal.spnego.principal": web,
        "dfs.journalnode.kerberos.principal": f"jn/_HOST@{REALM}",
        "dfs.journalnode.keytab.file": str(kdc.root / "jn.keytab"),
        "dfs.journalnode.kerberos.internal.spnego.principal": web,
        "dfs.web.authentication.kerberos.principal": web,
        "dfs.web.authentication.kerberos.keytab": str(kdc.root / "nn.keytab"),
        # tests poll these pages, which only Hadoop 3 has
        "hadoop.http.authentication.kerberos.endpoint.whitelist": "/status,/jmx,/metrics",
    }


def _web_logins(kdc: Kdc) -> dict[str, str]:
    """Return further properties with which Hadoop 3 web servers accept logins."""
    return {
        "hadoop.http.authentication.type": "kerberos",
        "hadoop.http.authentication.kerberos.principal": f"HTTP/_HOST@{REALM}",
        "hadoop.http.authentication.kerberos.keytab": str(kdc.root / "nn.keytab"),
    }
