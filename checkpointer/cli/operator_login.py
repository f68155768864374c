"""Kerberos login of commands, from the configured keytab if the user may read it, otherwise with the user's tickets."""

from __future__ import annotations

from hadoop_common.configuration import Configuration
from site_config.checkpoint_config import Role


def log_in_as_operator(configuration: Configuration, role: Role | None = None) -> None:
    """Log in with the Kerberos settings of `role`; None means the most likely role.

    Raises:
        ConfigurationError: the login settings are missing or faulty.
        KerberosSetupError: Kerberos cannot be used on this host.
    """
    from hadoop_rpc.kerberos import log_in
    from site_config import keys
    from site_config.checkpoint_config import identity_of
    from site_config.kerberos import ProcessKind, for_operator, kerberos_settings
    from site_config.report import likely_role

    settings = configuration.with_defaults(keys.DEFAULTS)
    chosen = role or likely_role(settings)
    found = kerberos_settings(settings, identity_of(chosen, settings), ProcessKind[chosen.name])
    if found is not None:
        log_in(for_operator(found.login))
