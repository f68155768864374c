"""Commands log in as the configuration says: by its keytab where this user may read it, else by his own tickets."""

from __future__ import annotations

from hadoop_common.configuration import Configuration
from site_config.checkpoint_config import Role


def log_in_as_operator(configuration: Configuration, role: Role | None = None) -> None:
    """Log in as the process of `role` does, which is the likely one where it is None.

    Raises:
        ConfigurationError: it says not, or wrongly, who that is.
        KerberosSetupError: Kerberos cannot be used here.
    """
    from hadoop_rpc.kerberos import log_in
    from site_config import keys
    from site_config.checkpoint_config import identity_of
    from site_config.kerberos import Part, for_operator, kerberos_settings
    from site_config.report import likely_role

    settings = configuration.with_defaults(keys.DEFAULTS)
    chosen = role or likely_role(settings)
    found = kerberos_settings(settings, identity_of(chosen, settings), Part[chosen.name])
    if found is not None:
        log_in(for_operator(found.login))
