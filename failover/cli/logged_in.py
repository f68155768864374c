"""What all commands of the controller begin with."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from failover.settings import FailoverSettings
from hadoop_common.cli.output import load_configuration
from hadoop_rpc.kerberos import log_in
from site_config.kerberos import for_operator


def logged_in_settings(conf_dir: Path, *, operator: bool = False) -> FailoverSettings:
    """The settings of `conf_dir`, by which this process is logged in; an operator may do so by his own tickets.

    Raises:
        ConfigurationError: all that is wrong with them.
    """
    settings = FailoverSettings.from_configuration(load_configuration(conf_dir))
    if settings.kerberos is not None:
        log_in(for_operator(settings.kerberos.login) if operator else settings.kerberos.login)
    return settings


def confirmed(question: str) -> bool:
    """Whether somebody at a terminal says yes; without one nobody is asked, and the answer is no."""
    return sys.stdin.isatty() and click.confirm(question, err=True)
