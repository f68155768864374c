"""Configuration folders for Hadoop's servers and clients in tests: one NameNode, or a pair with a shared journal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from namenode_stub.ports import free_port
from tests.interop.hadoop_home import SERVER, HadoopRelease

NAMESERVICE = "ns1"
_HOST = "127.0.0.1"
_CORE = "core-site.xml"
_HDFS = "hdfs-site.xml"
_WEB_APPLICATIONS = ("hdfs", "secondary", "journal", "datanode", "static")
_LOGGING = """\
log4j.rootLogger=INFO,console
log4j.logger.org.apache.hadoop.hdfs.server.namenode.FSNamesystem.audit=WARN
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{HH:mm:ss,SSS} %p %c{2}: %m%n
"""
_COMMON = {
    "dfs.webhdfs.enabled": "false",
    "dfs.namenode.acls.enabled": "true",
    # DataNodes never report a block
    "dfs.namenode.safemode.threshold-pct": "0",
    # report an unreachable server immediately
    "ipc.client.connect.max.retries": "1",
    "ipc.client.connect.retry.interval": "200",
    # without an fsync per transaction, because the tests kill only processes
    "dfs.namenode.edits.noeditlogchannelflush": "true",
}


class HadoopConf:
    """A folder with core-site.xml and hdfs-site.xml, for Hadoop's processes and for ours.

    Args:
        root: scratch folder; the configuration is in `root/conf`, storage is next to it.
        properties: replace the defaults; a key of core-site.xml begins with `fs.`, `ha.`,
            `hadoop.`, `io.`, `ipc.` or `net.`.
        release: release of the servers that use the configuration; a restart after a new assignment is an upgrade or a
            downgrade.
    """

    def __init__(
        self, root: Path, properties: Mapping[str, str] | None = None, release: HadoopRelease = SERVER
    ) -> None:
        self.root = root
        self.release = release
        self.folder = root / "conf"
        self.properties = {**_COMMON, **_single(root), **(properties or {})}
        self.write()

    def __getitem__(self, key: str) -> str:
        return self.properties[key]

    def update(self, properties: Mapping[str, str]) -> None:
        """Change properties; processes read them at their next start."""
        self.properties.update(properties)
        self.write()

    def write(self) -> None:
        """Write the two files, and the web applications that Hadoop's HTTP servers read from the class path."""
        write_web_applications(self.folder)
        (self.folder / "log4j.properties").write_text(_LOGGING)
        for name in (_CORE, _HDFS):
            chosen = {key: value for key, value in self.properties.items() if _file(key) == name}
            (self.folder / name).write_text(_xml(chosen), encoding="utf-8")

    @property
    def rpc_address(self) -> tuple[str, int]:
        """Host and port of the NameNode's RPC server."""
        return _address(self._named("dfs.namenode.rpc-address"))

    @property
    def http_address(self) -> tuple[str, int]:
        """Host and port of the NameNode's HTTP server."""
        return _address(self._named("dfs.namenode.http-address"))

    def web_url(self, key: str) -> str:
        """Return a server's URL by the key of its HTTP address, with or without nameservice; https with HTTPS_ONLY."""
        secure = self.properties.get("dfs.http.policy") == "HTTPS_ONLY"
        if secure and key != "dfs.namenode.backup.http-address":
            key = key.replace("http-address", "https-address")
        address = self.properties[key] if key in self.properties else self._named(key)
        return f"{'https' if secure else 'http'}://{address}"

    @property
    def name_dir(self) -> Path:
        """The NameNode's storage directory; the first if there are several."""
        return _first_path(self._named("dfs.namenode.name.dir"))

    @property
    def checkpoint_dir(self) -> Path:
        """The SecondaryNameNode's storage directory."""
        return _first_path(self["dfs.namenode.checkpoint.dir"])

    @property
    def shared_edits_dir(self) -> Path:
        """The folder that the NameNodes of a pair share."""
        return _first_path(self["dfs.namenode.shared.edits.dir"])

    def _named(self, key: str) -> str:
        """Return the value of a key for this folder's NameNode."""
        service, name = self.properties.get("dfs.nameservices"), self.properties.get("dfs.ha.namenode.id")
        return self[f"{key}.{service}.{name}" if service else key]


def write_web_applications(folder: Path) -> None:
    """Write the files that Hadoop's HTTP servers read from the class path, which must contain `folder`."""
    for application in _WEB_APPLICATIONS:
        place = folder / "webapps" / application / "WEB-INF"
        place.mkdir(parents=True, exist_ok=True)
        (place / "web.xml").write_text('<web-app version="2.4"/>\n')


def ha_pair_confs(
    root: Path, properties: Mapping[str, str] | None = None, release: HadoopRelease = SERVER
) -> tuple[HadoopConf, HadoopConf, HadoopConf]:
    """Return configurations of nn1 and nn2 of a nameservice with a shared `file:` journal, and of clients."""
    shared: dict[str, str] = {
        "fs.defaultFS": f"hdfs://{NAMESERVICE}",
        "dfs.nameservices": NAMESERVICE,
        f"dfs.ha.namenodes.{NAMESERVICE}": "nn1,nn2",
        "dfs.ha.automatic-failover.enabled": "false",
        "dfs.ha.fencing.methods": "shell(true)",
        # without this key, a client of Hadoop 3.4 or newer begins with a random NameNode, and may read from a fenced
        # NameNode
        "dfs.client.failover.random.order": "false",
        "dfs.namenode.shared.edits.dir": (root / "shared").as_uri(),
        f"dfs.client.failover.proxy.provider.{NAMESERVICE}": (
            "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
        ),
    }
    for name in ("nn1", "nn2"):
        suffix = f"{NAMESERVICE}.{name}"
        shared[f"dfs.namenode.rpc-address.{suffix}"] = f"{_HOST}:{free_port()}"
        shared[f"dfs.namenode.http-address.{suffix}"] = f"{_HOST}:{free_port()}"
        shared[f"dfs.namenode.name.dir.{suffix}"] = (root / name / "name").as_uri()
    shared |= properties or {}
    (root / "shared").mkdir(parents=True, exist_ok=True)
    confs = [HadoopConf(root / name, {**shared, "dfs.ha.namenode.id": name}, release) for name in ("nn1", "nn2")]
    for conf in (*confs, client := HadoopConf(root / "client", shared, release)):
        # a process would use the keys of a single NameNode instead of the keys of the pair
        for key in ("dfs.namenode.rpc-address", "dfs.namenode.http-address", "dfs.namenode.name.dir"):
            conf.properties.pop(key)
        conf.write()
    return confs[0], confs[1], client


def _single(root: Path) -> dict[str, str]:
    rpc = f"{_HOST}:{free_port()}"
    addresses = ("http-address", "secondary.http-address", "backup.address", "backup.http-address")
    return {
        "fs.defaultFS": f"hdfs://{rpc}",
        "dfs.namenode.rpc-address": rpc,
        **{f"dfs.namenode.{key}": f"{_HOST}:{free_port()}" for key in addresses},
        "dfs.namenode.name.dir": (root / "name").as_uri(),
        "dfs.namenode.checkpoint.dir": (root / "checkpoint").as_uri(),
        "dfs.journalnode.rpc-address": f"{_HOST}:{free_port()}",
        "dfs.journalnode.http-address": f"{_HOST}:{free_port()}",
        "dfs.journalnode.edits.dir": str(root / "journal"),
        "hadoop.tmp.dir": str(root / "tmp"),
    }


def _file(key: str) -> str:
    return _CORE if key.startswith(("fs.", "ha.", "hadoop.", "io.", "ipc.", "net.")) else _HDFS


def _xml(properties: Mapping[str, str]) -> str:
    rows = (
        f"  <property><name>{escape(key)}</name><value>{escape(value)}</value></property>\n"
        for key, value in sorted(properties.items())
    )
    return f"<configuration>\n{''.join(rows)}</configuration>\n"


def _address(value: str) -> tuple[str, int]:
    host, _, port = value.rpartition(":")
    return host, int(port)


def _first_path(value: str) -> Path:
    return Path(value.split(",", maxsplit=1)[0].removeprefix("file://"))
