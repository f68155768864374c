"""Runs a separate realm on loopback: MIT's KDC from Debian's packages, with its database and keytabs in a scratch
folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Self

from namenode_stub.ports import free_port
from tests.interop.hadoop_process import port_is_open, wait_until
from tests.required import skip

REALM = "TEST.REALM"
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local")
_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
_LIBRARY = """\
[libdefaults]
  default_realm = {realm}
  dns_lookup_realm = false
  dns_lookup_kdc = false
  dns_canonicalize_hostname = false
  rdns = false
  udp_preference_limit = 1
[realms]
  {realm} = {{
    kdc = 127.0.0.1:{port}
  }}
[domain_realm]
  localhost = {realm}
"""
_SERVER = """\
[kdcdefaults]
  kdc_listen = 127.0.0.1:{port}
  kdc_tcp_listen = 127.0.0.1:{port}
[realms]
  {realm} = {{
    database_name = {root}/principal
    key_stash_file = {root}/stash
    acl_file = {root}/kadm5.acl
    max_life = 24h
    supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
  }}
[logging]
  kdc = FILE:{root}/kdc.log
"""


def missing() -> str:
    """Return the missing part of a KDC or of python-gssapi; "" if both are complete."""
    lacking = [each for each in _PROGRAMS if shutil.which(each, path=_PATH) is None]
    try:
        import gssapi  # noqa: F401
    except ImportError:
        lacking.append("python-gssapi")
    return ", ".join(lacking)


def skip_without_kdc() -> None:
    """Skip the test if there is no KDC, or fail it if Kerberos is required."""
    if lacking := missing():
        skip("kerberos", f"{lacking} is not installed: `make interop-setup` installs it")


class Kdc:
    """A context manager that makes the realm and runs its KDC, which a test may stop and restart.

    Attributes:
        environment: variables with which processes find the KDC.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.krb5_conf = root / "krb5.conf"
        self.environment = {"KRB5_CONFIG": str(self.krb5_conf), "KRB5_KDC_PROFILE": str(root / "kdc.conf")}

    def __enter__(self) -> Self:
        self.root.mkdir(parents=True, exist_ok=True)
        values = {"realm": REALM, "port": self._port, "root": self.root}
        self.krb5_conf.write_text(_LIBRARY.format(**values))
        (self.root / "kdc.conf").write_text(_SERVER.format(**values))
        (self.root / "kadm5.acl").touch()
        self._run("kdb5_util", "create", "-s", "-P", "of-no-worth", "-r", REALM)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        with (self.root / "kdc.out").open("ab") as out:
            self._process = subprocess.Popen(
                self._command("krb5kdc", "-n", "-P", str(self.root / "kdc.pid")),
                env={**os.environ, **self.environment},
                stdout=out,
                stderr=out,
            )
        wait_until(lambda: port_is_open(("127.0.0.1", self._port)), "the KDC")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(600)

    def add(self, *names: str, life: str = "10h") -> None:
        """Add principals, `name` or `service/host`, with random keys; `life` is in kadmin's form."""
        for name in names:
            self.admin(f'addprinc -randkey -maxlife "{life}" {name}')

    def keytab(self, file: str, *names: str) -> Path:
        """Add the current keys of `names` to `file` in the realm's folder."""
        path = self.root / file
        for name in names:
            self.admin(f"ktadd -norandkey -k {path} {name}")
        return path

    def admin(self, request: str) -> str:
        """Run one request of kadmin on the database."""
        return self._run("kadmin.local", "-q", request)

    def tickets_of(self, principal: str) -> int:
        """Return the number of ticket granting tickets that the KDC has issued to `principal`."""
        lines = (self.root / "kdc.log").read_text().splitlines()
        return sum("AS_REQ" in line and "ISSUE:" in line and f" {principal} for krbtgt/" in line for line in lines)

    def _run(self, *words: str) -> str:
        done = subprocess.run(
            self._command(*words),
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done
        return done.stdout

    def _command(self, program: str, *words: str) -> list[str]:
        found = shutil.which(program, path=_PATH)
        assert found is not None, program
        return [found, *words]
