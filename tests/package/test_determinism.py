"""The same spec gives the same bytes: whatever the hash seed, the folder one stands in, and the locale."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from dispatchgen.matrix import cells
from dispatchgen.plan import plan
from dispatchgen.render import render
from tests.shipped import ROOT, build_of, catalog_of, template_set

RENDER = """
import hashlib, sys
from pathlib import Path
from dispatchgen.features import Selection, resolve
from dispatchgen.model.build import read_catalog
from dispatchgen.plan import plan
from dispatchgen.render import render
from dispatchgen.template_set import read_set

root = Path(sys.argv[1])
template_set, _ = read_set(root / "templates" / "torch")
catalog, _ = read_catalog(root / "spec", template_set)
for features in ((), ("cpu", "libtorch", "autodiff"), None):
    build, _ = resolve(catalog, Selection(features or (), default=features is None))
    files, findings = render(plan(catalog, template_set, build), template_set)
    assert not findings
    for file in files:
        print(features, file.path, file.digest, hashlib.sha256(file.text.encode()).hexdigest())
"""


def rendered(cwd: Path, root: str, **environment: str) -> str:
    """One line per file of three builds, rendered in a fresh process."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG", "PYTHON"))}
    done = subprocess.run(
        [sys.executable, "-c", RENDER, root],
        cwd=cwd,
        env={**clean, "PYTHONPATH": str(ROOT / "generator"), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


LOCALES = [{"LC_ALL": "C.UTF-8"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]


def test_same_bytes_everywhere(tmp_path: Path) -> None:
    """Six hash seeds, two folders to stand in (and two names for the project), two locales, and time zones."""
    first = rendered(ROOT, ".", PYTHONHASHSEED="0", **LOCALES[0])
    assert len(first.splitlines()) > 50
    for seed in range(1, 6):
        cwd, root = ((tmp_path, str(ROOT)), (ROOT / "spec", ".."))[seed % 2]
        environment = {"PYTHONHASHSEED": str(seed), "TZ": "Pacific/Chatham" if seed % 3 else "UTC", **LOCALES[seed % 2]}
        assert rendered(cwd, root, **environment) == first, environment
    assert rendered(ROOT, ".", PYTHONHASHSEED="random", LC_ALL="POSIX") == first


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_same_bytes_from_every_python(version: str, tmp_path: Path) -> None:
    """The committed package, written by another Python with the same versions of what the generator needs."""
    python = python_of(version)
    environment = tmp_path / "environment"
    needed = [f"{name}=={metadata.version(name)}" for name in NEEDED]
    for command in (
        [python, "-m", "venv", str(environment)],
        [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet", "--prefer-binary", *needed],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        if done.returncode:
            pytest.skip(f"no environment for Python {version} can be made: {(done.stderr or done.stdout)[-300:]}")
    command = [str(environment / "bin" / "python"), "-m", "dispatchgen", "generate", "--out", str(tmp_path / "out")]
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**clean, "PYTHONPATH": str(ROOT / "generator"), "DISPATCHGEN_CACHE": ""},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    made = tmp_path / "out" / "torchdispatch"
    shipped = ROOT / "generated" / "torchdispatch"
    found = [path.relative_to(made) for path in made.rglob("*") if path.is_file()]
    assert len(found) > 20
    assert [path for path in found if (made / path).read_bytes() != (shipped / path).read_bytes()] == []


NEEDED = ("jinja2", "pyyaml", "pydantic", "typer", "rich", "black", "filelock")


def python_of(version: str) -> str:
    """An interpreter of this version: on the path, or among those of pyenv; the test is skipped where there is none."""
    found = shutil.which(f"python{version}")
    kept = sorted(
        Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions").glob(f"{version}.*/bin/python")
    )
    for candidate in [*([found] if found else []), *map(str, kept)]:
        asked = subprocess.run([candidate, "--version"], capture_output=True, text=True)
        if asked.stdout.startswith(f"Python {version}."):
            return candidate
    pytest.skip(f"there is no Python {version} here")


# -- what order says: see docs/maintaining.md -------------------------------------------------------------------------


def moved(tmp_path: Path, name: str, change: Callable[[Any], None]) -> Path:
    spec = tmp_path / "spec"
    shutil.copytree(ROOT / "spec", spec)
    content = yaml.safe_load((spec / name).read_text(encoding="utf-8"))
    change(content)
    (spec / name).write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return spec


def package_of(spec: Path) -> dict[str, str]:
    catalog = catalog_of(spec)
    files, findings = render(plan(catalog, template_set(), build_of(catalog)), template_set())
    assert not findings
    return {file.path: file.text for file in files}


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("backends.yaml", lambda content: content.update(features=dict(reversed(content["features"].items())))),
        ("backends.yaml", lambda content: content["features"]["default"].reverse()),
        ("exemptions.yaml", lambda content: content["exemptions"].reverse()),
        ("backends.yaml", lambda content: content.update(reversed([(key, content.pop(key)) for key in [*content]]))),
    ],
    ids=["features", "default", "exemptions", "keys"],
)
def test_order_that_says_nothing(tmp_path: Path, name: str, change: Callable[[Any], None]) -> None:
    assert package_of(moved(tmp_path, name, change)) == package_of(ROOT / "spec")


@pytest.mark.parametrize(
    ("name", "key"), [("backends.yaml", "backends"), ("errors.yaml", "errors"), ("ops/collective.yaml", "ops")]
)
def test_order_of_entries_is_the_order_of_code_and_nothing_else(tmp_path: Path, name: str, key: str) -> None:
    spec = moved(tmp_path, name, lambda content: content[key].reverse())
    before, after = package_of(ROOT / "spec"), package_of(spec)
    assert before != after
    assert before.keys() == after.keys()

    def words(text: str) -> list[str]:
        return sorted(re.findall(r"\w+", text))

    assert [path for path in before if words(before[path]) != words(after[path])] == []
    old, new = catalog_of(ROOT / "spec"), catalog_of(spec)
    assert set(cells(old, template_set(), build_of(old))) == set(cells(new, template_set(), build_of(new)))


def test_order_of_keys_inside_an_entry_says_nothing(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "spec", tmp_path / "spec")
    shutil.copytree(ROOT / "templates", tmp_path / "templates")
    backends = yaml.safe_load((ROOT / "spec" / "backends.yaml").read_text(encoding="utf-8"))
    backends["backends"] = [dict(sorted(each.items(), reverse=True)) for each in backends["backends"]]
    (tmp_path / "spec" / "backends.yaml").write_text(yaml.safe_dump(backends, sort_keys=False), encoding="utf-8")

    def texts(listing: str) -> list[tuple[str, str]]:
        return [(line.rsplit(" ", 3)[-3], line.rsplit(" ", 1)[-1]) for line in listing.splitlines()]

    assert texts(rendered(tmp_path, ".")) == texts(rendered(ROOT, "."))


def test_ids_stay_when_an_entry_is_put_in_front(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "spec", tmp_path / "spec")
    backends = yaml.safe_load((ROOT / "spec" / "backends.yaml").read_text(encoding="utf-8"))
    backends["features"]["hip"] = []
    backends["backends"].insert(0, {"name": "Warp", "id": 77, "cfg": 'feature = "hip"'})
    (tmp_path / "spec" / "backends.yaml").write_text(yaml.safe_dump(backends, sort_keys=False), encoding="utf-8")
    before = {each.name: each.id for each in catalog_of(ROOT / "spec").backends}
    after = {each.name: each.id for each in catalog_of(tmp_path / "spec").backends}
    assert after == {"Warp": 77, **before}
