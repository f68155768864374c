"""`python -m tests.tls.make_stores FOLDER`: makes the stores in tests/tls/stores with keytool and Hadoop 2.7.3.

`chain.jks` and `chain.p12` contain a key with two certificates above its own; `rsa.jks`, `ec.jks` and `ec.jceks`
contain self-signed keys with a different password than the store; `trust.*` trust `rsa.jks`. The password of each store
is `store-secret`, and the password of these keys is `key-secret`. `credentials.jceks` contains both under the names in
ssl-server.xml.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.interop.hadoop_home import OLDEST, java_program

STORE, KEY = "store-secret", "key-secret"
_CENTURY = ("-validity", "36500")
_HERE = ("-ext", "san=dns:localhost,ip:127.0.0.1")
_CREDENTIALS = "org.apache.hadoop.security.alias.CredentialShell"


def keytool(*words: str, given: bytes = b"") -> bytes:
    """Run keytool on a store with the password `STORE`; return its output."""
    command = [str(java_program("keytool")), *words]
    return subprocess.run(command, input=given, check=True, capture_output=True).stdout


def _pair(path: Path, kind: str, alias: str, algorithm: str, *more: str, name: str = "localhost") -> None:
    size = ("-keysize", "2048") if algorithm == "RSA" else ()
    where = ("-keystore", str(path), "-storetype", kind, "-storepass", STORE)
    keytool(
        "-genkeypair", "-alias", alias, "-keyalg", algorithm, *size, "-dname", f"CN={name}", *_CENTURY, *where, *more
    )


def _store(path: Path) -> tuple[str, ...]:
    return ("-keystore", str(path), "-storepass", STORE)


def make(folder: Path) -> None:
    """Write all stores."""
    _pair(folder / "rsa.jks", "JKS", "rsa", "RSA", "-keypass", KEY, *_HERE)
    _pair(folder / "ec.jks", "JKS", "ec", "EC", "-keypass", KEY, *_HERE)
    _pair(folder / "ec.jceks", "JCEKS", "ec", "EC", "-keypass", KEY, *_HERE)
    own = keytool("-exportcert", "-rfc", "-alias", "rsa", *_store(folder / "rsa.jks"))
    for kind, name in (("JKS", "trust.jks"), ("JCEKS", "trust.jceks"), ("PKCS12", "trust.p12")):
        target = _store(folder / name)
        keytool("-importcert", "-noprompt", "-alias", "rsa", "-storetype", kind, *target, given=own)
    for kind, name in (("JKS", "chain.jks"), ("PKCS12", "chain.p12")):
        _chain(folder / name, kind)
    for alias, value in (("ssl.server.keystore.password", STORE), ("ssl.server.keystore.keypassword", KEY)):
        words = ("create", alias, "-value", value, "-provider", f"localjceks://file{folder / 'credentials.jceks'}")
        command = [str(java_program("java")), "-cp", OLDEST.class_path(), _CREDENTIALS, *words]
        subprocess.run(command, check=True, capture_output=True)
    (folder / "credentials.jceks").chmod(0o600)
    (folder / ".credentials.jceks.crc").unlink(missing_ok=True)


def _chain(path: Path, kind: str) -> None:
    authorities = path.with_name("authorities.p12")
    authorities.unlink(missing_ok=True)
    for alias in ("root", "middle"):
        _pair(authorities, "PKCS12", alias, "EC", "-ext", "bc:c", name=f"Test {alias}")
    _pair(path, kind, "leaf", "EC")
    chain = [keytool("-exportcert", "-rfc", "-alias", "root", *_store(authorities))]
    for alias, store, above, more in (
        ("middle", authorities, "root", ("-ext", "bc:c")),
        ("leaf", path, "middle", _HERE),
    ):
        asked = keytool("-certreq", "-alias", alias, *_store(store))
        issued = keytool("-gencert", "-rfc", "-alias", above, *_CENTURY, *more, *_store(authorities), given=asked)
        chain.insert(0, issued)
        keytool("-importcert", "-noprompt", "-alias", alias, *_store(store), given=b"".join(chain))
    authorities.unlink()


if __name__ == "__main__":
    make(Path(sys.argv[1]).resolve())
