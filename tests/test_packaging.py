"""What is in the wheel is what runs at a user's: the package's data, the default configuration, the command."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from proxy import __version__

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_it_carries_every_file_of_the_package(wheel):
    present = {path.relative_to(ROOT).as_posix() for path in (ROOT / "proxy").rglob("*") if path.is_file()}
    present = {name for name in present if "__pycache__" not in name}

    assert {name for name in wheel.namelist() if name.startswith("proxy/")} == {
        *present,
        "proxy/settings/pruning-proxy.toml",
    }


def test_it_carries_the_default_configuration(wheel):
    packed = wheel.read("proxy/settings/pruning-proxy.toml")

    assert packed == (ROOT / "config" / "pruning-proxy.toml").read_bytes()


def test_it_installs_the_command_and_the_licence(wheel):
    info = f"pruning_proxy-{__version__}.dist-info"

    assert "pruning-proxy = proxy.cli:main" in wheel.read(f"{info}/entry_points.txt").decode()
    assert f"{info}/licenses/LICENSE" in wheel.namelist()


def test_the_default_configuration_is_found_inside_the_wheel(wheel, tmp_path):
    wheel.extractall(tmp_path)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "proxy", "check", "--example"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        check=True,
    )

    assert done.stdout == (ROOT / "config" / "pruning-proxy.toml").read_bytes()
