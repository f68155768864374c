"""Installed files next to the program: man pages, completion, units, configurations; the Debian package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from checkpointer.cli import cli
from install.deb import POSTINST, PRERM
from install.man_pages import completions, man_pages
from site_config.checkpoint_config import Role
from tests.cli_runner import run_cli
from tests.install.host import REPOSITORY, build_wheel, build_wheelhouse
from tests.tools.interface import present_version

CONFIG = REPOSITORY / "config"
BIN = Path(sys.executable).parent


def test_every_command_has_a_man_page(tmp_path: Path) -> None:
    pages = man_pages()
    assert {f"checkpointer-{name}.1" for name in cli.list_commands(None)} < pages.keys()  # type: ignore[arg-type]
    merge = pages["checkpointer-merge.1"]
    assert "\n.B \\-\\-dry\\-run\n" in merge
    assert "\n.BR checkpointer (1)\n" in merge
    if shutil.which("man") is None:
        return
    for name in ("checkpointer.1", "checkpointer-image-verify.1", "checkpointer-report.1"):
        path = tmp_path / name
        path.write_text(pages[name])
        command = ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", path]
        shown = subprocess.run(command, capture_output=True, text=True, check=True)
        assert shown.stderr == ""


def test_the_shell_completes_commands_and_options(tmp_path: Path) -> None:
    script = tmp_path / "completion"
    script.write_text(completions()["bash-completion/completions/checkpointer"])
    for words, expected in ((["ima"], "image"), (["image", "ver"], "verify"), (["merge", "--dry"], "--dry-run")):
        line = " ".join(["checkpointer", *words])
        ask = f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _checkpointer_completion checkpointer"
        done = subprocess.run(
            ["bash", "-c", f"{ask}; echo ${{COMPREPLY[@]}}"],
            capture_output=True,
            text=True,
            env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
            check=True,
        )
        assert done.stdout.split() == [expected]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    names = {"checkpointer@.service": "checkpointer@secondary.service"}
    names |= {name: name for name in ("checkpointer-journalnode.service", "checkpointer-zkfc.service")}
    drill = "checkpointer-archive-drill"
    names |= {name: name for name in (f"{drill}.service", f"{drill}.timer")}
    for source, name in names.items():
        text = (CONFIG / "systemd" / source).read_text().replace("/opt/hdfs-checkpointer/bin", str(BIN))
        # users of this machine; sysusers.conf creates hdfs and hadoop
        (tmp_path / name).write_text(text.replace("User=hdfs", "User=root").replace("Group=hadoop", "Group=root"))
        command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", tmp_path / name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")


def test_postinst_compiles_in_the_background_and_restarts_running_units(tmp_path: Path) -> None:
    script = tmp_path / "postinst"
    script.write_text(POSTINST.replace("/run/systemd/system", str(tmp_path)))
    for name in ("systemctl", "systemd-run", "systemd-sysusers"):
        shim = tmp_path / name
        # systemd-run fails, but the installation must succeed
        shim.write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/calls\n[ {name} != systemd-run ]\n')
        shim.chmod(0o755)
    for version, restarts in (("", []), ("0.9", ["systemctl try-restart"])):
        (tmp_path / "calls").unlink(missing_ok=True)
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        subprocess.run(["sh", "-u", script, "configure", version], env=environment, check=True)
        called = (tmp_path / "calls").read_text().splitlines()
        assert [" ".join(each.split()[:2]) for each in called] == [
            "systemd-sysusers hdfs-checkpointer.conf",
            "systemctl daemon-reload",
            *restarts,
            "systemd-run --quiet",
        ]
        assert called[-1].endswith("=/var/cache/hdfs-checkpointer /opt/hdfs-checkpointer/bin/checkpointer compile")


def test_the_removal_of_the_package_deletes_compiled_kernels(tmp_path: Path) -> None:
    cache = tmp_path / "opt/hdfs-checkpointer/lib/engine/__pycache__"
    cache.mkdir(parents=True)
    for name in ("module.cpython-311.pyc", "kernels.twice-1.py311.nbi", "kernels.twice-1.py311.1.nbc", "files.lock"):
        (cache / name).touch()
    script = tmp_path / "prerm"
    script.write_text(PRERM.replace("/opt", str(tmp_path / "opt")).replace("/run/systemd", str(tmp_path)))
    for action, kept in (("upgrade", 4), ("remove", 1)):
        subprocess.run(["sh", "-u", script, action], check=True)
        assert len(list(cache.iterdir())) == kept
    # a removal never fails because of the cache
    shutil.rmtree(tmp_path / "opt")
    subprocess.run(["sh", "-u", script, "remove"], check=True)


@pytest.mark.parametrize("role", [role.value for role in Role])
def test_the_minimal_configuration_of_a_role_can_start_it(role: str) -> None:
    outcome = run_cli("config", "--conf", CONFIG / role, "--role", role)
    assert outcome.code == 0, outcome.err
    assert "0 unknown" in outcome.out
    assert outcome.err == ""


def test_a_build_removes_older_versions_from_the_wheelhouse(tmp_path: Path) -> None:
    version = present_version()
    new, old = (f"hdfs_checkpointer-{each}-py3-none-any.whl" for each in (version, "0.9.0"))
    (tmp_path / "dist").mkdir()
    for name in (old, "hdfs-checkpointer_0.9.0_amd64.deb"):
        (tmp_path / "dist" / name).touch()
    for name in ("pyproject.toml", "requirements"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\ncase "$*" in *"pip wheel"*) touch dist/{new};; esac\n')
    python.chmod(0o755)
    command = ["make", "-f", REPOSITORY / "Makefile", "-o", "setup", "deb", "EXTRAS=", f"TARGET_PYTHON={python}"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert sorted(path.name for path in (tmp_path / "dist").iterdir()) == ["constraints.txt", new, "wheelhouse"]
    assert sorted(path.name for path in (tmp_path / "dist/wheelhouse").iterdir()) == ["constraints.txt", new]


@pytest.mark.deep
@pytest.mark.timeout(3600)
@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not installed")
def test_contents_of_the_debian_package(tmp_path: Path) -> None:
    """Check the contents of the package; `apt-get install` would need a separate machine."""
    wheelhouse = build_wheelhouse(build_wheel(tmp_path))
    subprocess.run([sys.executable, "-m", "install.deb", wheelhouse, tmp_path], check=True, cwd=REPOSITORY)
    (package,) = tmp_path.glob("*.deb")
    root = tmp_path / "root"
    subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    home = root / "opt/hdfs-checkpointer"
    for name in (path.name for suffix in ("service", "timer") for path in CONFIG.glob(f"*.{suffix}")):
        assert (root / "usr/lib/systemd/system" / name).read_bytes() == (CONFIG / name).read_bytes()
    assert (root / "etc/hdfs-checkpointer/logging.toml").read_bytes() == (CONFIG / "logging.toml").read_bytes()
    assert (root / "usr/share/man/man1/checkpointer-merge.1.gz").is_file()
    assert (root / "usr/share/doc/hdfs-checkpointer/config").is_symlink()
    for link in (path for path in (root / "usr").rglob("*") if path.is_symlink()):
        assert (root / link.readlink().relative_to("/")).exists(), link
    assert (home / "bin/checkpointer").read_text().startswith("#!/opt/hdfs-checkpointer/bin/python\n")
    for path in (home / "bin/checkpointer", home / "pyvenv.cfg", *home.glob("lib/*/site-packages/checkpointer/*.py")):
        assert str(tmp_path) not in path.read_text()
    (compiled,) = home.glob("lib/*/site-packages/checkpointer/cli/__pycache__/merge_command.*.pyc")
    assert str(tmp_path).encode() not in compiled.read_bytes()
    site = next(home.glob("lib/*/site-packages"))

    def reported(program: str, *words: str) -> str:
        """Return the output of the package's Python, without libraries from elsewhere."""
        command = [sys.executable, "-S", "-c", program, *words]
        environment = {"PYTHONPATH": str(site), "KRB5_CONFIG": str(krb5_conf)}
        return subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout.strip()

    krb5_conf = tmp_path / "krb5.conf"
    krb5_conf.write_text("[libdefaults]\n  default_realm = TEST.REALM\n")
    assert reported("from checkpointer.cli import main; main()", "--version").startswith("checkpointer, version ")
    # the libraries for Kerberos and key stores
    assert reported("from hadoop_rpc.gssapi_library import default_realm; print(default_realm())") == "TEST.REALM"
    read = "from hadoop_common.tls.key_store import decode_key_store as read; import sys"
    store = REPOSITORY / "tests" / "tls" / "stores" / "chain.p12"
    count = reported(f"{read}; print(len(read(open(sys.argv[1], 'rb').read(), 'store-secret').keys))", str(store))
    assert count == "1"
    control = subprocess.run(["dpkg-deb", "-f", package, "Depends"], capture_output=True, text=True, check=True)
    assert "libgssapi-krb5-2" in control.stdout
