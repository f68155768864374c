"""Access to python-gssapi (over MIT's library): import, names, and the causes of its errors with hints."""

from __future__ import annotations

from typing import Any

from hadoop_common.extras import install_hint
from hadoop_rpc.errors import KerberosSetupError

HINTS = {
    2529638918: "Add the principal to the KDC, or correct its configuration key.",
    2529638919: "The KDC does not know the server by this name: check the host in its principal and address.",
    2529638943: "The keytab is older than the key in the KDC: export it again (kadmin: ktadd).",
    2529638944: "The ticket has expired, and a new ticket could not be obtained: check the KDC and the keytab.",
    2529638946: "Try again: two tokens made at the same moment look like a replay.",
    2529638949: "The clocks of the two hosts are more than 5 minutes apart: check NTP on both.",
    2529639066: "Name the KDCs of the realm in krb5.conf (KRB5_CONFIG may name another file).",
    2529639068: "Check the KDCs of the realm in krb5.conf, and the network to them.",
}
EXPIRED = 2529638944


def gssapi_library() -> Any:
    # imported here, because clusters without security and commands without connections do not need the library
    try:
        import gssapi
    except ImportError as fault:
        raise KerberosSetupError(
            "hadoop.security.authentication is kerberos, and the required Python package gssapi is not installed",
            hint=f"{install_hint('kerberos')} pip compiles it with gcc, python3-dev and libkrb5-dev.",
        ) from fault
    return gssapi


def principal_name(principal: str) -> Any:
    gssapi = gssapi_library()
    return gssapi.Name(principal, gssapi.NameType.kerberos_principal)


def cause(error: Any) -> str:
    message = "; ".join(error.get_all_statuses(error.min_code, False))
    # errors of GSSAPI itself have only a major code
    return "; ".join(error.get_all_statuses(error.maj_code, True)) if message in ("", "Success") else message


def default_realm() -> str:
    """Return the default realm of krb5.conf, or "" if there is none.

    Raises:
        KerberosSetupError: the library is missing.
    """
    gssapi = gssapi_library()
    try:
        found = principal_name("nobody").canonicalize(gssapi.MechType.kerberos)
    except gssapi.exceptions.GSSError:
        return ""
    return str(found).rpartition("@")[2]
