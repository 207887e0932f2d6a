"""The same spec gives the same bytes: whatever the hash seed, the folder one stands in, and the locale."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.shipped import ROOT

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


def test_same_bytes_everywhere(tmp_path: Path) -> None:
    first = rendered(ROOT, ".", PYTHONHASHSEED="0", LC_ALL="C.UTF-8")
    assert len(first.splitlines()) > 50
    assert (
        rendered(tmp_path, str(ROOT), PYTHONHASHSEED="1", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0") == first
    )
    assert rendered(ROOT / "spec", "..", PYTHONHASHSEED="2", LC_ALL="POSIX", TZ="Pacific/Chatham") == first


def test_order_of_keys_inside_an_entry_says_nothing(tmp_path: Path) -> None:
    import shutil

    import yaml

    shutil.copytree(ROOT / "spec", tmp_path / "spec")
    shutil.copytree(ROOT / "templates", tmp_path / "templates")
    backends = yaml.safe_load((ROOT / "spec" / "backends.yaml").read_text(encoding="utf-8"))
    backends["backends"] = [dict(sorted(each.items(), reverse=True)) for each in backends["backends"]]
    (tmp_path / "spec" / "backends.yaml").write_text(yaml.safe_dump(backends, sort_keys=False), encoding="utf-8")

    def texts(listing: str) -> list[tuple[str, str]]:
        return [(line.rsplit(" ", 3)[-3], line.rsplit(" ", 1)[-1]) for line in listing.splitlines()]

    assert texts(rendered(tmp_path, ".")) == texts(rendered(ROOT, "."))


def test_ids_stay_when_an_entry_is_put_in_front(tmp_path: Path) -> None:
    import shutil

    import yaml

    from tests.shipped import catalog_of

    shutil.copytree(ROOT / "spec", tmp_path / "spec")
    backends = yaml.safe_load((ROOT / "spec" / "backends.yaml").read_text(encoding="utf-8"))
    backends["features"]["hip"] = []
    backends["backends"].insert(0, {"name": "Warp", "id": 77, "cfg": 'feature = "hip"'})
    (tmp_path / "spec" / "backends.yaml").write_text(yaml.safe_dump(backends, sort_keys=False), encoding="utf-8")
    before = {each.name: each.id for each in catalog_of(ROOT / "spec").backends}
    after = {each.name: each.id for each in catalog_of(tmp_path / "spec").backends}
    assert after == {"Warp": 77, **before}
