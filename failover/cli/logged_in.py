"""Common steps of the controller's commands: settings, login and confirmation."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from failover.settings import FailoverSettings
from hadoop_common.cli.output import load_configuration
from hadoop_rpc.kerberos import log_in
from site_config.kerberos import for_operator


def load_and_log_in(conf_dir: Path, *, operator: bool = False) -> FailoverSettings:
    """Load the settings in `conf_dir` and log in; for an `operator`, accept kinit tickets and print warnings.

    Raises:
        ConfigurationError: names all faulty keys.
    """
    settings = FailoverSettings.from_configuration(load_configuration(conf_dir, warns=operator))
    if settings.kerberos is not None:
        log_in(for_operator(settings.kerberos.login) if operator else settings.kerberos.login)
    return settings


def confirmed(question: str) -> bool:
    """Ask the question at the terminal; return False if there is no terminal."""
    return sys.stdin.isatty() and click.confirm(question, err=True)
