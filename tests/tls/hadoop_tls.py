"""Configurations of clusters with HTTPS only, for Hadoop's processes and for ours."""

from __future__ import annotations

import shutil
from pathlib import Path

from namenode_stub.ports import free_port
from tests.interop.hadoop_conf import HadoopConf
from tests.tls.certificates import write_xml

STORES = Path(__file__).parent / "stores"
STORE = "store-secret"


def https_only(conf: HadoopConf, like: HadoopConf | None = None) -> HadoopConf:
    """Add keytool's stores for servers and clients to `conf`; the servers' passwords are in a credential provider.

    Existing addresses for https are kept; missing addresses are copied from `like`, a configuration of the same
    cluster.
    """
    addresses = [key for key in conf.properties if ".http-address" in key and "backup" not in key]
    secure = {key.replace("http-address", "https-address"): f"127.0.0.1:{free_port()}" for key in addresses}
    if like is not None:
        secure.update({key: value for key, value in like.properties.items() if ".https-address" in key})
    conf.update({**secure, **conf.properties, "dfs.http.policy": "HTTPS_ONLY"})
    for name in ("credentials.jceks", "rsa.jks", "trust.jks"):
        shutil.copyfile(STORES / name, conf.folder / name)
        (conf.folder / name).chmod(0o600)
    provider = f"localjceks://file{conf.folder / 'credentials.jceks'}"
    trust = {"truststore.location": str(conf.folder / "trust.jks"), "truststore.password": STORE}
    server = {"keystore.location": str(conf.folder / "rsa.jks"), **trust}
    for mode, found in (("server", server), ("client", trust)):
        own = {"hadoop.security.credential.provider.path": provider} if mode == "server" else {}
        write_xml(conf.folder / f"ssl-{mode}.xml", {**own, **{f"ssl.{mode}.{k}": v for k, v in found.items()}})
    return conf
