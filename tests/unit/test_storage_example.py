"""A second template set on the same generator: it generates, checks and runs, and nothing in it is about tensors."""

from __future__ import annotations

import filecmp
import importlib
import json
import os
import pickle
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatchgen.check import code
from dispatchgen.features import Selection, resolve
from dispatchgen.model.build import read_catalog
from dispatchgen.model.catalog import Catalog
from dispatchgen.plan import plan
from dispatchgen.render import render
from dispatchgen.template_set import TemplateSet, read_set
from dispatchgen.validate import validate

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "storage"
COMMITTED = EXAMPLE / "generated" / "storage"
CATALOG = yaml.safe_load((EXAMPLE / "spec" / "backends.yaml").read_text(encoding="utf-8"))
BACKENDS = {backend["name"]: backend for backend in CATALOG["backends"]}
FEATURES = [name for name in CATALOG["features"] if name != "default"]
SUBSETS = [subset for size in range(len(FEATURES) + 1) for subset in combinations(FEATURES, size)]
WRITABLE = [name for name, backend in BACKENDS.items() if "writable" in backend]


@pytest.fixture(scope="module", autouse=True)
def importable() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLE))
        patch.syspath_prepend(str(EXAMPLE / "generated"))
        yield


@pytest.fixture
def storage() -> ModuleType:
    return importlib.import_module("storage")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


class Place:
    """Names of stores in a folder of one test; the archive has one file, and everything else is empty."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with zipfile.ZipFile(folder / "Archive.zip", "w") as archive:
            archive.writestr("there/one.txt", b"packed")
            archive.writestr(".hidden", b"no key leads here")
            archive.writestr("there/", b"")

    def url(self, backend: str) -> str:
        suffix = ".zip" if backend == "Archive" else ""
        return f"{BACKENDS[backend]['scheme']}:{self.folder / backend}{suffix}"


def dispatchgen(*arguments: str, cwd: Path = EXAMPLE) -> subprocess.CompletedProcess[str]:
    return run("-m", "dispatchgen", *arguments, cwd=cwd)


def run(*arguments: str, cwd: Path = EXAMPLE) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "generator"), "COLUMNS": "120", "NO_COLOR": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=60, encoding="utf-8", check=False
    )


# The commands.


def test_what_is_committed_is_what_the_spec_generates(tmp_path: Path) -> None:
    done = dispatchgen("generate", "--out", str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    made = sorted(
        path.relative_to(tmp_path / "storage") for path in (tmp_path / "storage").rglob("*") if path.is_file()
    )
    kept = sorted(
        path.relative_to(COMMITTED)
        for path in COMMITTED.rglob("*")
        if path.is_file() and path.suffix != ".pyc" and path.name != ".dispatchgen.lock"
    )
    assert [name for name in made if name.name != ".dispatchgen.lock"] == kept
    _, unlike, lost = filecmp.cmpfiles(tmp_path / "storage", COMMITTED, map(str, kept), shallow=False)
    assert (unlike, lost) == ([], []), f"run `dispatchgen generate` in {EXAMPLE.relative_to(ROOT)}"


def test_check_finds_nothing() -> None:
    done = dispatchgen("check", "--deny", "warnings")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "up to date" in done.stdout


def test_check_finds_a_kernel_that_is_gone(tmp_path: Path) -> None:
    for name in ("spec", "templates", "storage_kernels", "generated"):
        copied(EXAMPLE / name, tmp_path / name)
    (tmp_path / "pyproject.toml").write_bytes((EXAMPLE / "pyproject.toml").read_bytes())
    kernels = tmp_path / "storage_kernels" / "folder.py"
    kernels.write_text(kernels.read_text(encoding="utf-8").replace("def fits(", "def _fits("), encoding="utf-8")
    done = dispatchgen("check", cwd=tmp_path)
    assert done.returncode == 1
    assert "Folder has no kernel for fits" in done.stdout + done.stderr
    assert "def fits(self, size: int) -> bool:" in done.stdout + done.stderr


def test_matrix_says_what_the_catalog_says() -> None:
    done = dispatchgen("matrix", "--format", "json")
    assert done.returncode == 0, done.stderr
    cells = [cell for cell in json.loads(done.stdout)["cells"] if cell["wrapper"] is None]
    puts = {cell["backend"]: cell["arm"] for cell in cells if cell["op"] == "put"}
    assert puts == {name: "kernel" if name in WRITABLE else "error" for name in BACKENDS}
    copies = {(cell["backend"], cell["target"]): cell["arm"] for cell in cells if cell["op"] == "copy_to"}
    assert copies == {(a, b): "error" if b == "Archive" else "kernel" for a in BACKENDS for b in BACKENDS}


def test_explain_knows_the_codes() -> None:
    done = dispatchgen("explain", "ST203")
    assert done.returncode == 0
    assert done.stdout.startswith("ST203: MissingKey\n")


def test_the_tour_runs() -> None:
    done = run("-W", "error", "tour.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert "after:  ('letters/anna.txt', 'letters/ben.txt', 'read.me')" in done.stdout
    assert "b'Start here.' b'Start here.' b'Start there.'" in done.stdout
    assert "ST101" in done.stdout


def test_the_package_needs_the_standard_library_and_its_kernels_only() -> None:
    code = (
        f"import sys; sys.path[:0] = [{str(EXAMPLE)!r}, {str(EXAMPLE / 'generated')!r}]; import storage;"
        "roots = {name.partition('.')[0] for name in sys.modules};"
        "print(sorted(roots - set(sys.stdlib_module_names) - {'__main__'}))"
    )
    done = run("-I", "-S", "-c", code)
    assert (done.stdout, done.stderr) == ("['storage', 'storage_kernels']\n", "")


# What the operations do.


@pytest.mark.parametrize("backend", WRITABLE)
def test_objects_are_put_read_and_deleted(storage: ModuleType, place: Place, backend: str) -> None:
    store = place.url(backend)
    assert storage.list(store) == ()
    assert not storage.has(store, "a/b.txt")
    storage.put(store, "a/b.txt", b"one")
    storage.put(store, "a/b.txt", bytearray(b"two\0"))
    storage.put(store, "ä", b"")
    assert storage.get(store, "a/b.txt") == b"two\0"
    assert storage.get(storage.open_store(store), "ä") == b""
    assert storage.list(store) == ("a/b.txt", "ä")
    assert storage.list(store, "a/") == ("a/b.txt",)
    assert storage.has(store, "ä")
    assert not storage.has(store, "a")
    assert storage.fits(store, 10)
    assert not storage.fits(store, 2**80)
    storage.delete(store, "a/b.txt")
    assert storage.list(store) == ("ä",)
    for call in (storage.get, storage.delete):
        with pytest.raises(storage.MissingKey) as caught:
            call(store, "a/b.txt")
        assert isinstance(caught.value, KeyError)
        assert str(caught.value).startswith(f"{store} has no object 'a/b.txt'\n")


def test_an_archive_is_read_and_refuses_changes(storage: ModuleType, place: Place) -> None:
    store = storage.Archive(place.folder / "Archive.zip")
    assert storage.list(store) == ("there/one.txt",)
    assert storage.get(store, "there/one.txt") == b"packed"
    assert not storage.has(store, "there")
    assert storage.fits(store, 0) is False
    before = (place.folder / "Archive.zip").read_bytes()
    for call, rest in ((storage.put, [b""]), (storage.delete, [])):
        with pytest.raises(storage.NotWritable) as caught:
            call(store, "there/one.txt", *rest)
        assert caught.value.code == "ST101"
        assert "In this build these do: Memory, Folder, Sqlite." in caught.value.reason
        assert "copy_to" in caught.value.help
    assert (place.folder / "Archive.zip").read_bytes() == before


@pytest.mark.parametrize("source", BACKENDS)
@pytest.mark.parametrize("target", BACKENDS)
def test_copies_go_every_way_that_the_catalog_allows(
    storage: ModuleType, place: Place, source: str, target: str
) -> None:
    store, other = place.url(source), place.url(target) + ("" if target == "Archive" else "-2")
    if source in WRITABLE:
        storage.put(store, "there/one.txt", b"packed")
    allowed = BACKENDS[target].get("transfer", "both") == "both"
    assert storage.can_copy(store, other) == allowed
    if not allowed:
        with pytest.raises(storage.NoWay, match="nothing goes into Archive: its transfer is out"):
            storage.copy_to(store, "not/there.txt", other)
        return
    storage.copy_to(store, "there/one.txt", other)
    assert storage.get(other, "there/one.txt") == storage.get(store, "there/one.txt") == b"packed"


@pytest.mark.parametrize("backend", [name for name in BACKENDS if name != "Memory"])
def test_a_cached_store_reads_once(storage: ModuleType, place: Place, backend: str) -> None:
    plain = storage.open_store(place.url(backend))
    store = storage.cached(plain)
    assert store != plain
    assert storage.is_cached(store)
    assert storage.open_store(str(store)) == store == storage.cached(store)
    assert str(store) == f"cached+{plain}"
    if backend in WRITABLE:
        storage.put(plain, "there/one.txt", b"packed")
    assert storage.get(store, "there/one.txt") == b"packed"
    with zipfile.ZipFile(place.folder / "other.zip", "w") as archive:
        archive.writestr("there/one.txt", b"changed")
    if backend == "Archive":
        (place.folder / "other.zip").replace(place.folder / "Archive.zip")
    else:
        storage.copy_to(storage.Archive(place.folder / "other.zip"), "there/one.txt", plain)
    assert storage.get(plain, "there/one.txt") == b"changed"
    assert storage.get(store, "there/one.txt") == b"packed"
    storage.forget(str(store))
    assert storage.get(store, "there/one.txt") == b"changed"
    if backend in WRITABLE:
        storage.put(store, "there/one.txt", b"mine")
        assert storage.get(store, "there/one.txt") == b"mine"
        storage.delete(store, "there/one.txt")
        with pytest.raises(storage.MissingKey):
            storage.get(store, "there/one.txt")
    with pytest.raises(storage.NotCached, match="remembers nothing"):
        storage.forget(plain)


def test_memory_is_not_cached(storage: ModuleType) -> None:
    assert not storage.can_cache("memory:x")
    for make in (
        lambda: storage.cached("memory:x"),
        lambda: storage.open_store("cached+memory:x"),
        lambda: storage.Memory("x", cached=True),
    ):
        with pytest.raises(storage.NotCacheable, match="A cache around memory:x would be of no use"):
            make()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    calls=st.lists(
        st.tuples(st.sampled_from(["put", "delete", "get", "forget"]), st.sampled_from("abc"), st.binary(max_size=4)),
        max_size=12,
    )
)
@pytest.mark.parametrize("backend", ["Memory", "Folder", "Sqlite", "cached+Folder", "cached+Sqlite"])
def test_every_store_is_a_dictionary(
    storage: ModuleType, place: Place, backend: str, calls: list[tuple[str, str, bytes]]
) -> None:
    wrapper, _, name = backend.rpartition("+")
    store = storage.open_store(place.url(name))
    store = storage.cached(store) if wrapper else store
    for key in storage.list(store):
        storage.delete(store, key)
    model: dict[str, bytes] = {}
    for call, letter, data in calls:
        key = f"{letter}/{letter}"
        if call == "put":
            storage.put(store, key, data)
            model[key] = data
        elif call == "forget" and wrapper:
            storage.forget(store)
        elif call in ("get", "delete") and key not in model:
            with pytest.raises(storage.MissingKey):
                getattr(storage, call)(store, key)
        elif call == "get":
            assert storage.get(store, key) == model[key]
        elif call == "delete":
            storage.delete(store, key)
            del model[key]
        assert {each: storage.get(store, each) for each in storage.list(store)} == model


@pytest.mark.parametrize("backend", WRITABLE)
def test_threads_see_whole_objects(storage: ModuleType, place: Place, backend: str) -> None:
    store = place.url(backend)
    storage.put(store, "key", b"0" * 5000)

    def work(number: int) -> bytes:
        storage.put(store, "key", str(number).encode() * 5000)
        return bytes(storage.get(store, "key"))

    with ThreadPoolExecutor(4) as pool:
        assert all(len(data) == 5000 and len(set(data)) == 1 for data in pool.map(work, [1, 2, 3, 4] * 3))


# What is refused.


@pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "..", "a/../b", ".part", "a\\b", "a\0", "\ud800"])
def test_bad_keys(storage: ModuleType, place: Place, key: str) -> None:
    assert not storage.is_key(key)
    for backend in BACKENDS:
        with pytest.raises(storage.BadKey, match="cannot be the key of an object"):
            storage.get(place.url(backend), key)
    assert sorted(path.name for path in place.folder.iterdir()) == ["Archive.zip"]


def test_in_a_folder_no_key_leads_through_another_object(storage: ModuleType, place: Place) -> None:
    store = place.url("Folder")
    storage.put(store, "a", b"")
    with pytest.raises(storage.BadKey, match="'a/b' leads through another object"):
        storage.put(store, "a/b", b"")
    with pytest.raises(storage.MissingKey):
        storage.get(store, "a/b")
    storage.delete(store, "a")
    storage.put(store, "a/b/c", b"")
    with pytest.raises(storage.BadKey, match="other objects are below 'a'"):
        storage.put(store, "a", b"")
    assert storage.list(store) == ("a/b/c",)
    storage.delete(store, "a/b/c")
    storage.put(store, "a", b"a file again")


@pytest.mark.parametrize(
    ("like", "why"),
    [
        ("notes", "there is no colon in it"),
        ("floder:notes", "no entry of the catalog has the scheme 'floder'"),
        ("folder:", "a store has a place"),
        ("cached+cached+folder:x", "no entry of the catalog has the scheme 'cached+folder'"),
        ("Folder:x", "no entry of the catalog has the scheme 'Folder'"),
    ],
)
def test_texts_that_name_no_store(storage: ModuleType, like: str, why: str) -> None:
    assert not storage.is_listed(like)
    with pytest.raises(storage.UnknownStore, match=re.escape(why)) as caught:
        storage.list(like)
    assert "memory:, folder:, sqlite:, archive:" in caught.value.help


def test_values_of_the_wrong_type(storage: ModuleType, place: Place) -> None:
    store = place.url("Memory")
    calls = [
        (lambda: storage.get(None, "a"), "get takes a store of storage or a text such as 'folder:notes', not None"),
        (lambda: storage.get(Path("notes"), "a"), "get takes a store"),
        (lambda: storage.get(store, 3), "get takes a text here, not 3"),
        (lambda: storage.put(store, "a", "text"), r"put takes bytes, not str; call .encode\(\) on a text"),
        (lambda: storage.put(store, "a", None), "put takes bytes, not NoneType"),
        (lambda: storage.list(store, b"a"), "list takes a text here"),
        (lambda: storage.fits(store, 1.5), "fits takes a number of bytes, not 1.5"),
    ]
    for call, text in calls:
        with pytest.raises(TypeError, match=text):
            call()
    with pytest.raises(ValueError, match="below zero"):
        storage.fits(store, -1)


def test_a_write_that_fails_leaves_the_old_object(
    storage: ModuleType, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = storage.cached(place.url("Folder"))
    storage.put(store, "key", b"old")
    assert storage.get(store, "key") == b"old"

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(storage.Unreachable, match="No space left on device") as caught:
        storage.put(store, "key", b"new")
    assert isinstance(caught.value, OSError)
    assert storage.get(store, "key") == b"old"
    assert [path.name for path in Path(store.location).iterdir()] == ["key"]


def test_places_that_are_not_what_they_should_be(storage: ModuleType, place: Place) -> None:
    (place.folder / "text").write_text("neither a database nor an archive, and no folder either\n" * 20)
    for scheme in ("sqlite", "archive"):
        with pytest.raises(storage.Unreachable, match=f"{scheme}:.*text cannot be worked with"):
            storage.list(f"{scheme}:{place.folder / 'text'}")
    with pytest.raises(storage.Unreachable, match="No such file"):
        storage.has(f"archive:{place.folder / 'gone.zip'}", "a")
    for scheme in ("sqlite", "folder"):
        assert storage.list(f"{scheme}:{place.folder / 'gone'}") == ()
    assert not (place.folder / "gone").exists()


def test_stores_are_values(storage: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = storage.Folder("notes")
    assert store == storage.open_store("folder:./notes") == storage.Folder(tmp_path / "notes")
    assert store != storage.Sqlite("notes")
    assert pickle.loads(pickle.dumps(store)) == store
    assert eval(repr(store), vars(storage)) == store
    with pytest.raises(AttributeError):
        store.location = "elsewhere"
    storage.put(store, "a", b"here")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert storage.get(store, "a") == b"here"


def test_errors_explain_themselves_and_can_be_pickled(storage: ModuleType) -> None:
    with pytest.raises(storage.MissingKey) as caught:
        storage.get("memory:none", "a")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.code, copy.op) == (str(caught.value), "ST203", "get")
    assert copy.explain().startswith("ST203 MissingKey\n\nNothing was put under the key")


# Builds.


@cache
def holds(predicate: str, features: frozenset[str]) -> bool:
    """The value of a predicate, by way of Python: not the generator's evaluator."""
    text = re.sub(r'feature = "(\w+)"', lambda found: str(found[1] in features), predicate)
    text = re.sub(r"\b(any|all)\(", r"\1_(", text)
    flags = {name: holds(inner, features) for name, inner in CATALOG["cfgs"].items() if name in predicate}
    return bool(eval(text, {"any_": lambda *parts: any(parts), "all_": lambda *parts: all(parts), **flags}))


@cache
def inputs() -> tuple[TemplateSet, Catalog]:
    template_set, _ = read_set(EXAMPLE / "templates")
    assert template_set is not None
    catalog, findings = read_catalog(EXAMPLE / "spec", template_set)
    assert catalog is not None
    assert findings == ()
    return template_set, catalog


def built(folder: Path, subset: tuple[str, ...], package: str) -> Path:
    """The package of a build, unformatted, with its arms checked against the matrix."""
    template_set, catalog = inputs()
    catalog = replace(catalog, package=package)
    build, _ = resolve(catalog, Selection(subset, False))
    assert build is not None
    assert validate(catalog, template_set, build=build) == ()
    files, findings = render(plan(catalog, template_set, build), template_set)
    assert findings == ()
    for file in files:
        path = folder / package / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, encoding="utf-8")
    texts = {file.path: file.text.encode() for file in files}
    assert list(code.check(catalog, template_set, build, folder / package, texts)) == []
    return folder / package


def answer(call: Any, *values: Any) -> str:
    """What a call does: the class of its error, or that it did something."""
    try:
        call(*values)
    except Exception as error:
        return type(error).__name__
    return "done"


def expected(op: str, backend: str, features: frozenset[str]) -> str:
    """What an operation does on a plain store of a build, from the YAML."""
    if not holds(BACKENDS[backend]["cfg"], features):
        return "NotBuilt"
    if op in ("put", "delete") and "writable" not in BACKENDS[backend]:
        return "NotWritable"
    if op == "forget":
        could = BACKENDS[backend].get("cached", True)
        return "NotBuilt" if could and not holds(CATALOG["wrappers"][0]["cfg"], features) else "NotCached"
    return "MissingKey" if op in ("get", "delete") else "done"


@pytest.fixture
def anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path / "builds"))
    return tmp_path / "builds"


def test_every_build_answers_as_its_predicates_say(anywhere: Path, place: Place) -> None:
    assert len(SUBSETS) == 32
    for number, subset in enumerate(SUBSETS):
        features = frozenset(subset)
        name = f"build_{number}"
        built(anywhere, subset, name)
        importlib.invalidate_caches()
        package = importlib.import_module(name)
        assert set(subset) == set(package.FEATURES)
        there = [backend for backend in BACKENDS if holds(BACKENDS[backend]["cfg"], features)]
        assert [each.name for each in package.variants.Backend] == [backend.upper() for backend in there]
        rest = {
            "get": ["no"],
            "has": ["no"],
            "list": [],
            "delete": ["no"],
            "put": ["p", b""],
            "fits": [1],
            "forget": [],
        }
        for backend in BACKENDS:
            url = place.url(backend) + ("" if backend == "Archive" else name)
            for op, values in rest.items():
                found = answer(getattr(package, op), url, *values)
                assert found == expected(op, backend, features), (subset, op, backend)
            assert package.is_built(backend) == hasattr(package, backend) == (backend in there)
            assert package.is_listed(url) == (backend in there)
            if backend not in there:
                with pytest.raises(package.NotBuilt, match=f"--features .*{backend.lower()}"):
                    getattr(package, backend)
            cached = "NotBuilt"
            if backend in there:
                cache = holds(CATALOG["wrappers"][0]["cfg"], features)
                cacheable = BACKENDS[backend].get("cached", True)
                cached = "NotCacheable" if not cacheable else "done" if cache else "NotBuilt"
            assert answer(package.cached, url) == cached, (subset, backend)
            if cached == "done":
                assert answer(package.forget, package.cached(url)) == "done"
            for target in BACKENDS:
                into = place.url(target) + ("" if target == "Archive" else f"{name}-into")
                key = "p" if "writable" in BACKENDS[backend] else "there/one.txt"
                wanted = "NotBuilt"
                if {backend, target} <= set(there):
                    wanted = "done" if BACKENDS[target].get("transfer", "both") == "both" else "NoWay"
                found = answer(package.copy_to, url, key, into)
                assert found == wanted, (subset, backend, target)


def copied(source: Path, target: Path) -> None:
    for path in source.rglob("*"):
        if path.is_file() and path.suffix in (".py", ".yaml", ".jinja", ".json", ".typed"):
            (target / path.relative_to(source)).parent.mkdir(parents=True, exist_ok=True)
            (target / path.relative_to(source)).write_bytes(path.read_bytes())


def test_types_are_strict_in_every_kind_of_build_and_bite(tmp_path: Path) -> None:
    copied(EXAMPLE / "storage_kernels", tmp_path / "storage_kernels")
    copied(COMMITTED, tmp_path / "storage")
    for name, subset in {"none": (), "readers": ("archive",), "memories": ("memory", "cache")}.items():
        built(tmp_path, subset, name)
    bitten = built(tmp_path, ("memory", "folder"), "bitten") / "ops" / "write.py"
    arm = "        case variants.FOLDER:\n            return kernels.folder.kernel(store).put\n"
    text = bitten.read_text(encoding="utf-8")
    assert text.count(arm) == 1
    bitten.write_text(text.replace(arm, ""), encoding="utf-8")
    (tmp_path / "tour.py").write_bytes((EXAMPLE / "tour.py").read_bytes())
    packages = ["storage", "storage_kernels", "none", "readers", "memories", "bitten", "tour.py"]
    done = run("-m", "mypy", "--config-file", str(EXAMPLE / "pyproject.toml"), *packages, cwd=tmp_path)
    told = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(told) == 1, done.stdout + done.stderr
    assert told[0].startswith("bitten/ops/write.py:")
    assert "assert_never" in told[0]


def test_ruff_finds_nothing() -> None:
    done = run("-m", "ruff", "check", "--no-cache", str(EXAMPLE), cwd=ROOT)
    assert done.returncode == 0, done.stdout


# What the generator learned for it.


def test_an_operation_is_called_like_a_builtin_only_where_the_set_allows_it(workshop: Any) -> None:
    workshop.change("spec/ops/work.yaml", "name: log", "name: list")
    assert [(found.code, found.message) for found in workshop.validate()] == [
        ("DG401", "an operation cannot be called `list`: it is a builtin of Python")
    ]
    workshop.change("set/set.yaml", "reserved: [Spot]", "reserved: [Spot]\nbuiltins: [list]")
    assert workshop.validate() == ()


def test_what_a_pair_carries_is_a_return_type_of_the_set(workshop: Any) -> None:
    workshop.change("spec/ops/move.yaml", "into: put_in", "into: put_in, carries: trooth")
    assert [(found.code, found.message, found.fix) for found in workshop.validate()] == [
        ("DG405", "the template set `plain` knows no plain return type `trooth`", "did you mean `truth`?")
    ]
    workshop.change("spec/ops/move.yaml", "carries: trooth", "carries: later")
    assert [found.code for found in workshop.validate()] == ["DG405"]
