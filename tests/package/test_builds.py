"""Every build does what the catalog says, as read by a second, smaller reader than the generator's."""

from __future__ import annotations

import ast
import copy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from tests.feature_space.calls import calls, device_of, text_of
from tests.feature_space.reader import Spec, read
from tests.feature_space.space import prepare
from tests.package.builds import Build, type_check, write_build
from tests.shipped import ROOT, SPEC


@pytest.mark.parametrize(
    ("cfg", "holds"),
    [
        ('feature = "cpu"', True),
        ('feature = "cuda"', False),
        ('any(feature = "cuda", feature = "cpu")', True),
        ('all(feature = "cuda", feature = "cpu")', False),
        ('not(all(feature = "cuda"))', True),
        ("true", True),
        ("not(true)", False),
        ("any()", False),
        ("all()", True),
    ],
)
def test_the_second_reader_reads(cfg: str, holds: bool) -> None:
    assert Spec(SPEC, ("cpu",)).holds(cfg) is holds


# -- every op on every backend ----------------------------------------------------------------------------------------


def outcome(call: Callable[[], object]) -> object:
    """The name of what the call raises, else its value."""
    try:
        return call()
    except Exception as error:
        return type(error).__name__


def expected(spec: Spec, family: Any, op: Any, backend: str, runtime: str | None, wrapped: bool, here: bool) -> object:
    """What a call without any open group must come to: a class name, a value, or ANYTHING."""
    refused = spec.refusal(family, op, backend, runtime)
    question = op.get("otherwise") in ("none", "false")
    if question:
        return {"none": None, "false": False}[op["otherwise"]]
    if op["route"] == "devices" and op.get("context"):
        return spec.classes["no_context"]
    if refused is not None:
        return spec.classes[refused]
    if op.get("wrapper") and not wrapped:
        return spec.classes["plain_tensor" if spec.wrapped else "not_built"]
    if op.get("context"):
        return spec.classes["no_context"]
    if not here:
        return spec.classes["unavailable"]
    return spec.classes["untracked"] if op.get("wrapper") else ANYTHING


ANYTHING = object()

ALL = tuple(name for name in read(SPEC / "backends.yaml")["features"] if name != "default")
BUILDS = [(), *((name,) for name in ALL), ("metal", "ndarray", "capture", "autodiff"), ("cpu", "autodiff"), ALL]


@pytest.mark.parametrize("features", BUILDS, ids=lambda features: "+".join(features) or "none")
def test_every_op_on_every_backend_does_what_the_catalog_says(features: tuple[str, ...], build_package: Build) -> None:
    pkg, spec = build_package(*features, name=f"built_{len(features)}_{'_'.join(features[:1])}"), Spec(SPEC, features)
    assert set(calls(pkg, None, None)) == {op["name"] for _, op in spec.ops()}
    wrong = []
    for backend, runtime in spec.variants():
        if not spec.built(backend, runtime):
            assert not pkg.is_built(backend)
            assert not hasattr(pkg, backend)
            continue
        plain = device_of(pkg, backend, runtime)
        wraps = spec.wrapped and spec.backends[backend].get("autodiff", True)
        for device in (plain, *([pkg.autodiff(plain)] if wraps else [])):
            tensor = pkg.Tensor(torch.ones(2), device)
            made = calls(pkg, device, tensor)
            for family, op in spec.ops():
                if "pair" in op:
                    continue
                want = expected(spec, family, op, backend, runtime, device.autodiff, pkg.is_available(plain))
                got = outcome(made[op["name"]])
                ok = not isinstance(got, str) if want is ANYTHING else got == want
                if not ok:
                    wrong.append(f"{op['name']} on {device}: {got}, not {want}")
            outcome(made["close_communication_server"])
            if not spec.capable(backend, runtime):
                assert outcome(lambda: pkg.barrier([device])) == spec.classes["not_capable"]  # noqa: B023
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("features", BUILDS, ids=lambda features: "+".join(features) or "none")
def test_every_transfer_does_what_the_catalog_says(features: tuple[str, ...], build_package: Build) -> None:
    pkg, spec = build_package(*features, name=f"moved_{len(features)}_{'_'.join(features[:1])}"), Spec(SPEC, features)
    [(family, op)] = [(family, op) for family, op in spec.ops() if "pair" in op]
    built = [variant for variant in spec.variants() if spec.built(*variant)]
    for source in built:
        tensor = pkg.Tensor(torch.ones(2), device_of(pkg, *source))
        for target in built:
            there = device_of(pkg, *target)
            there = there if source != target else there.replace(index=1)
            modes = [spec.backends[name].get("transfer", "both") for name, _ in (source, target)]
            out = "no_transfer" if modes[0] in ("into", "none") else spec.refusal(family, op, *source)
            into = "no_transfer" if modes[1] == "none" else spec.refusal(family, op, *target)
            places = [tensor.device, there]
            gone = not all(map(pkg.is_available, places)) and "unavailable"
            # the way out is taken before the way in, and each is refused by the catalog before the machine is asked
            steps = [out or (not pkg.is_available(places[0]) and "unavailable"), into or gone]
            want = next((spec.classes[step] for step in steps if step), None)
            got = outcome(lambda: pkg.to_device(tensor, there))  # noqa: B023
            if want is None and target[0] == "Capture":
                want = "OutsideCapture"
            assert got == want if want else isinstance(got, pkg.Tensor), f"{source} -> {target}: {got}, not {want}"
            assert pkg.can_transfer(tensor.device, there) is (want in (None, "OutsideCapture"))


def test_build_without_features_says_so_in_every_op(build_package: Build) -> None:
    pkg, spec = build_package(), Spec(SPEC, ())
    for backend, runtime in spec.variants():
        made = calls(pkg, text_of(pkg, backend, runtime), torch.ones(2))
        for _, op in spec.ops():
            got = outcome(made[op["name"]])
            if op.get("otherwise") in ("none", "false"):
                assert got in (None, False)
            elif op["route"] == "devices" and op.get("context"):
                assert got == "NoBackend"
            else:
                assert got == "NotBuilt", f"{op['name']} on {backend}: {got}"
    with pytest.raises(pkg.NoBackend, match="dispatchgen generate --no-default-features --features cpu"):
        pkg.default_device()
    with pytest.raises(pkg.NotBuilt, match="--features cpu"):
        pkg.barrier(["cpu:0"])
    with pytest.raises(pkg.NotBuilt, match="--features cpu"):
        pkg.from_torch(torch.ones(2))
    with pytest.raises(pkg.NoDevices):
        pkg.DistributedContext([])
    with pytest.raises(pkg.NotBuilt, match="--features ndarray"):
        pkg.from_numpy(torch.ones(2).numpy())
    assert list(pkg.Backend) == []
    assert pkg.FEATURES == ()


def test_every_op_on_a_backend_of_another_build_names_feature_and_command(build_package: Build) -> None:
    pkg, spec = build_package("cuda"), Spec(SPEC, ("cuda",))
    made = calls(pkg, "cpu:0", torch.ones(2))
    for _, op in spec.ops():
        if op["name"] in ("scatter", "barrier") or op.get("otherwise") in ("none", "false"):
            continue
        with pytest.raises(pkg.NotBuilt, match="--no-default-features --features cpu,cuda"):
            made[op["name"]]()


def test_importing_a_build_loads_no_kernels() -> None:
    code = (
        "import sys, torchdispatch as td; print([m for m in sys.modules if m.startswith('dispatch_runtime.backends.')])"
    )
    path = [str(ROOT / "generated"), str(ROOT / "runtime")]
    found = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path}; {code}"], capture_output=True, text=True, check=True
    )
    loaded = set(ast.literal_eval(found.stdout))
    assert loaded <= {"dispatch_runtime.backends.capture", "dispatch_runtime.backends._kernel"}, loaded


# -- Burn's catalogs --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["burn_2026_08", "burn_2026_09"])
def burn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A spec folder of Burn's backends and this project's operations and errors."""
    return prepare(request.param, tmp_path_factory.mktemp("burn"))


def test_what_burns_backends_do(burn: Path, build_package: Build) -> None:
    features = tuple(name for name in read(burn / "backends.yaml")["features"] if name != "default")
    pkg, spec = build_package(*features, spec=burn, name=f"whole_{burn.name.rstrip('0123456789')}"), Spec(
        burn, features
    )
    for backend, runtime in spec.variants():
        if backend == "Remote" or not spec.built(backend, runtime):
            continue
        device = getattr(pkg, backend)(*([runtime] if runtime else [0]))
        with pytest.raises(pkg.DispatchError) as caught:
            pkg.all_reduce(pkg.Tensor(torch.ones(2), device), pkg.ReduceOperation.SUM)
        situation = "no_kernel" if spec.capable(backend, runtime) else "not_capable"
        assert type(caught.value).__name__ == spec.classes[situation]
        assert backend in str(caught.value)
        if runtime and situation == "not_capable":
            assert runtime in caught.value.reason


def test_a_collective_on_wgpu_is_refused_by_name_and_cuda_is_let_through(build_package: Build, tmp_path: Path) -> None:
    folder = tmp_path / "spec"
    shutil.copytree(SPEC / "ops", folder / "ops")
    shutil.copy(SPEC / "errors.yaml", folder / "errors.yaml")
    catalog = copy.deepcopy(read(ROOT / "tests" / "data" / "burn" / "burn_2026_09.yaml"))
    catalog["backends"][0]["kernels"] = "dispatch_runtime.backends.libtorch:LibTorch"
    (folder / "backends.yaml").write_text(yaml.safe_dump(catalog), encoding="utf-8")
    pkg = build_package("cuda", "wgpu", spec=folder, name="built_cube")
    with pytest.raises(pkg.NotCapable, match="wgpu") as caught:
        pkg.sync_collective(pkg.Cube("wgpu"))
    assert "Cube[cuda]" in caught.value.reason
    with pytest.raises(pkg.NoContext):  # past the arm: what is missing now is a device group
        pkg.sync_collective(pkg.Cube("cuda"))
    with pytest.raises(pkg.NotBuilt, match="--features cuda,vulkan,wgpu"):
        pkg.Cube("vulkan")
    assert pkg.is_distributed_capable(pkg.Cube("cuda"))
    assert not pkg.is_distributed_capable(pkg.Cube("wgpu"))


def test_a_runtime_may_be_called_what_python_cannot_call_anything(build_package: Build, tmp_path: Path) -> None:
    catalog = copy.deepcopy(read(ROOT / "tests" / "data" / "burn" / "burn_2026_09.yaml"))
    names = ["2.5-d", "-a-", "Upper", "a+b", "None"]
    catalog["backends"][0] |= {"kernels": "dispatch_runtime.backends.libtorch:LibTorch", "cfg": 'feature = "cuda"'}
    catalog["backends"][0]["runtimes"] = [{"name": name, "distributed": {"engine": "nccl"}} for name in names]
    folder = prepare("burn_2026_09", tmp_path)
    (folder / "backends.yaml").write_text(yaml.safe_dump(catalog), encoding="utf-8")
    pkg = build_package("cuda", spec=folder, name="built_odd")
    for name in names:
        assert pkg.device(f"{name.upper()}:1") == pkg.Cube(name, 1)
        with pytest.raises(pkg.NoContext):
            pkg.sync_collective(pkg.Cube(name))
    left_out = build_package("flex", spec=folder, name="built_without_odd")
    with pytest.raises(left_out.NotBuilt, match="--no-default-features --features cuda,flex"):
        left_out.device("2.5-d:0")


def test_where_no_feature_more_would_help_no_command_is_told(build_package: Build, tmp_path: Path) -> None:
    catalog = copy.deepcopy(read(ROOT / "tests" / "data" / "burn" / "burn_2026_09.yaml"))
    catalog["backends"][1]["cfg"] = 'not(feature = "cuda")'
    folder = prepare("burn_2026_09", tmp_path)
    (folder / "backends.yaml").write_text(yaml.safe_dump(catalog), encoding="utf-8")
    pkg = build_package("cuda", spec=folder, name="built_against")
    with pytest.raises(pkg.NotBuilt, match="no feature more brings it in") as caught:
        pkg.sync_collective("flex:0")
    assert "dispatchgen" not in str(caught.value)


# -- types and style --------------------------------------------------------------------------------------------------

CHECKED = {
    "build_default": None,
    "build_none": (),
    "build_cpu": ("cpu",),
    "build_zero_capable": ("metal", "ndarray", "capture"),
    "build_all": ALL,
}


def test_types_of_every_kind_of_build(tmp_path: Path) -> None:
    default = tuple(read(SPEC / "backends.yaml")["features"]["default"])
    for package, features in CHECKED.items():
        write_build(SPEC, default if features is None else features, package, tmp_path)
    found = type_check(tmp_path, list(CHECKED))
    assert found.returncode == 0, found.stdout + found.stderr


def test_style_of_every_kind_of_build(tmp_path: Path) -> None:
    """As formatted, which is how they go to disk; the default build is the one in `generated/`."""
    for package, features in CHECKED.items():
        if package in ("build_default", "build_all"):
            continue
        command = [sys.executable, "-m", "dispatchgen", "generate", "--out", str(tmp_path), "--package", package]
        command += ["--no-default-features", *(["--features", ",".join(features)] if features else [])]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    ruff = [sys.executable, "-m", "ruff", "check", "--no-cache", "--config", str(ROOT / "pyproject.toml")]
    # as for generated/: the first sentence of a text from the catalog may need more than a line
    style = subprocess.run([*ruff, "--extend-ignore", "D205", str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert style.returncode == 0, style.stdout + style.stderr
    shipped = subprocess.run([*ruff, "generated"], cwd=ROOT, capture_output=True, text=True)
    assert shipped.returncode == 0, shipped.stdout + shipped.stderr
