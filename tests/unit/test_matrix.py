from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dispatchgen.matrix import Arm, Cell, cells, sides
from tests import shipped

if TYPE_CHECKING:
    from tests.unit.conftest import Workshop

ROOT = Path(__file__).resolve().parents[2]
Place = tuple[str, str, str | None, str | None, str | None]


def matrix(workshop: Workshop, *features: str, default: bool = True) -> dict[Place, Arm]:
    found = cells(workshop.catalog, workshop.template_set, workshop.build(*features, default=default))
    arms = {(cell.op, cell.backend, cell.runtime, cell.wrapper, cell.target): cell.arm for cell in found}
    assert len(arms) == len(found)
    return arms


def test_every_op_meets_every_variant_once_in_the_order_of_the_catalog(workshop: Workshop) -> None:
    found = cells(workshop.catalog, workshop.template_set, workshop.build())
    variants = [
        ("Hammer", None, None),
        ("Hammer", None, "Logged"),
        ("Saw", None, None),
        ("Box", "nails", None),
        ("Box", "bolts", None),
    ]
    assert [(cell.op, cell.backend, cell.runtime, cell.wrapper, cell.target) for cell in found] == [
        *(("carry", *variant, target) for variant in variants for target in ("Hammer", "Saw", "Box")),
        *((op, *variant, None) for op in ("lift", "is_heavy", "log") for variant in variants),
    ]
    assert {cell.family for cell in found} == {"MoveOps", "WorkOps"}


def test_the_arms_of_a_build_with_everything(workshop: Workshop) -> None:
    arms = matrix(workshop, "night")
    assert arms["lift", "Hammer", None, None, None] == Arm("kernel", kernel="shops.hammer:Hammer.lift")
    assert arms["lift", "Hammer", None, "Logged", None] == Arm("kernel", kernel="shops.hammer:Hammer.lift")
    assert arms["lift", "Saw", None, None, None] == Arm("error", "no_power", "the catalog lists no talks for Saw")
    assert arms["lift", "Box", "nails", None, None] == Arm("kernel", kernel="shops.box:Box.lift")
    assert arms["lift", "Box", "bolts", None, None] == Arm(
        "error", "no_power", "the catalog lists no talks for runtime bolts of Box"
    )
    assert arms["is_heavy", "Hammer", None, None, None].kind == "kernel"
    assert arms["is_heavy", "Saw", None, None, None] == Arm("value", reason="the catalog lists no talks for Saw")
    assert arms["log", "Hammer", None, None, None] == Arm("error", "bare", "log works inside of Logged only")
    assert arms["log", "Hammer", None, "Logged", None] == Arm("kernel", kernel="shops.hammer:Hammer.log")
    assert arms["log", "Saw", None, None, None].situation == "no_power"


def test_what_is_not_compiled_in_says_why_and_what_helps(workshop: Workshop) -> None:
    arms = matrix(workshop)
    saw = 'Saw is not in this build: feature = "saw" does not hold; turn on feature saw'
    assert arms["lift", "Saw", None, None, None] == Arm("absent", "left_out", saw)
    assert arms["is_heavy", "Saw", None, None, None] == Arm("absent", "left_out", saw)
    assert arms["carry", "Hammer", None, None, "Saw"] == Arm("absent", "left_out", saw)
    assert arms["carry", "Saw", None, None, "Hammer"] == Arm("absent", "left_out", saw)
    assert arms["lift", "Box", "bolts", None, None].reason == (
        'runtime bolts of Box is not in this build: feature = "night" does not hold; turn on feature night'
    )
    bare = matrix(workshop, "hammer", default=False)
    assert bare["lift", "Hammer", None, None, None].kind == "kernel"
    assert bare["lift", "Hammer", None, "Logged", None].reason == (
        'wrapper Logged is not in this build: feature = "logged" does not hold; turn on feature logged'
    )
    nothing = matrix(workshop, default=False)
    assert {arm.kind for arm in nothing.values()} == {"absent"}
    assert nothing["lift", "Box", "nails", None, None].reason == (
        "Box is not in this build: any_tool does not hold; turn on feature hammer"
    )


def test_pairs_follow_from_transfer(workshop: Workshop) -> None:
    arms = matrix(workshop, "night")

    def pair(source: str, runtime: str | None, target: str) -> Arm:
        return arms["carry", source, runtime, None, target]

    assert pair("Hammer", None, "Saw") == Arm(
        "kernel", kernel="shops.hammer:Hammer.take_out", into="shops.saw:Saw.put_in"
    )
    assert pair("Hammer", None, "Hammer").kind == "kernel"
    assert pair("Hammer", None, "Box").kind == "kernel"
    assert pair("Box", "bolts", "Box").situation == "no_way"
    assert pair("Box", "nails", "Saw") == Arm("error", "no_way", "nothing goes out of Box: its transfer is into")
    workshop.change("spec/backends.yaml", "transfer: into", "transfer: none")
    arms = matrix(workshop, "night")
    assert pair("Hammer", None, "Box") == Arm("error", "no_way", "nothing goes into Box: its transfer is none")


def test_each_side_of_a_pair_has_its_own_arm(workshop: Workshop) -> None:
    catalog = workshop.catalog
    family = catalog.families[0]
    out, into = sides(catalog, workshop.template_set, workshop.build(), family, family.ops[0])
    assert [(side.backend, side.runtime, side.arm.kernel or side.arm.situation) for side in out] == [
        ("Hammer", None, "shops.hammer:Hammer.take_out"),
        ("Box", "nails", "no_way"),
    ]
    assert [(side.backend, side.runtime, side.arm.kernel or side.arm.situation) for side in into] == [
        ("Hammer", None, "shops.hammer:Hammer.put_in"),
        ("Box", "nails", "shops.box:Box.put_in"),
    ]


def test_a_declared_exception_has_its_own_reason(workshop: Workshop) -> None:
    workshop.change(
        "spec/ops/move.yaml",
        "    returns: {type: value}",
        "    returns: {type: value}\n    exceptions: [{source: Hammer, target: Saw, reason: too sharp}]",
    )
    arms = matrix(workshop, "saw")
    assert arms["carry", "Hammer", None, None, "Saw"] == Arm("error", "no_way", "too sharp")
    assert arms["carry", "Saw", None, None, "Hammer"].kind == "kernel"


@pytest.mark.parametrize(
    ("exemption", "op", "backend", "arm"),
    [
        ("op: lift", "lift", "Hammer", Arm("error", "unwritten", "r")),
        ("op: lift", "lift", "Saw", Arm("error", "no_power", "the catalog lists no talks for Saw")),
        ("op: lift", "is_heavy", "Hammer", Arm("kernel", kernel="shops.hammer:Hammer.is_heavy")),
        ("backend: Hammer, answer: bare", "lift", "Hammer", Arm("error", "bare", "r")),
        ("backend: Hammer, answer: bare", "is_heavy", "Hammer", Arm("value", reason="r")),
        ("backend: Hammer, op: lift, answer: bare", "lift", "Hammer", Arm("error", "bare", "r")),
        ("backend: Saw, op: lift", "lift", "Hammer", Arm("kernel", kernel="shops.hammer:Hammer.lift")),
    ],
)
def test_exemptions_answer_for_kernels(workshop: Workshop, exemption: str, op: str, backend: str, arm: Arm) -> None:
    workshop.write("spec/exemptions.yaml", f"version: 1\nexemptions: [{{{exemption}, reason: r, until: 2027-01-01}}]\n")
    assert matrix(workshop, "saw")[op, backend, None, None, None] == arm


def test_the_closest_exemption_answers(workshop: Workshop) -> None:
    workshop.write(
        "spec/exemptions.yaml",
        """\
        version: 1
        exemptions:
          - {op: lift, reason: the op, until: 2027-01-01}
          - {backend: Hammer, reason: the backend, until: 2027-01-01}
          - {backend: Hammer, op: lift, reason: both, until: 2027-01-01}
        """,
    )
    arms = matrix(workshop)
    assert arms["lift", "Hammer", None, None, None].reason == "both"
    assert arms["log", "Hammer", None, None, None].reason == "the backend"
    assert arms["lift", "Box", "nails", None, None].reason == "the op"


def test_an_exempted_backend_is_no_target_either(workshop: Workshop) -> None:
    workshop.write("spec/exemptions.yaml", "version: 1\nexemptions: [{backend: Saw, reason: r, until: 2027-01-01}]\n")
    arms = matrix(workshop, "saw")
    assert arms["carry", "Hammer", None, None, "Saw"] == Arm("error", "unwritten", "r")
    assert arms["carry", "Saw", None, None, "Hammer"] == Arm("error", "unwritten", "r")
    assert arms["carry", "Hammer", None, None, "Hammer"].kind == "kernel"


def test_a_backend_without_kernels(workshop: Workshop) -> None:
    workshop.change("spec/backends.yaml", "    kernels: shops.hammer:Hammer\n", "")
    arms = matrix(workshop, "saw")
    missing = Arm("error", "unwritten", "the catalog names no kernels for Hammer")
    assert arms["lift", "Hammer", None, None, None] == missing
    assert arms["log", "Hammer", None, None, None] == missing
    assert arms["is_heavy", "Hammer", None, None, None].kind == "value"
    assert arms["carry", "Hammer", None, None, "Saw"] == missing
    assert arms["carry", "Saw", None, None, "Hammer"] == missing


def matrix_of(spec: Path, *features: str, default: bool = True) -> tuple[Cell, ...]:
    catalog = shipped.catalog_of(spec)
    return cells(catalog, shipped.template_set(), shipped.build_of(catalog, *features, default=default))


def test_the_shipped_matrix() -> None:
    arms = {
        (cell.op, cell.backend, cell.runtime, cell.wrapper, cell.target): (cell.arm.kind, cell.arm.situation)
        for cell in matrix_of(ROOT / "spec")
    }
    assert arms["all_reduce", "Cpu", None, None, None] == ("kernel", None)
    assert arms["all_reduce", "Cuda", None, "Autodiff", None] == ("kernel", None)
    assert arms["all_reduce", "Metal", None, None, None] == ("error", "not_capable")
    assert arms["all_reduce", "LibTorch", "hpu", None, None] == ("kernel", None)
    assert arms["all_reduce", "LibTorch", "xla", None, None] == ("error", "not_capable")
    assert arms["all_reduce", "Remote", None, None, None] == ("error", "unavailable")
    assert arms["is_distributed", "Metal", None, None, None] == ("value", None)
    assert arms["set_distributed_params", "Cpu", None, None, None] == ("error", "plain_tensor")
    assert arms["set_distributed_params", "Cpu", None, "Autodiff", None] == ("kernel", None)
    assert arms["set_distributed_params", "NdArray", None, None, None] == ("error", "not_capable")
    assert arms["to_device", "Cpu", None, None, "NdArray"] == ("kernel", None)
    assert arms["to_device", "Cpu", None, None, "Capture"] == ("kernel", None)
    assert arms["to_device", "Capture", None, None, "Cpu"] == ("error", "no_transfer")
    assert arms["to_device", "Cpu", None, None, "Remote"] == ("error", "unavailable")
    assert ("all_reduce", "NdArray", None, "Autodiff", None) not in arms


def test_capability_is_asked_of_the_runtime_in_burn_s_catalog(tmp_path: Path) -> None:
    (tmp_path / "ops").mkdir()
    for file in [ROOT / "spec/errors.yaml", *(ROOT / "spec/ops").glob("*.yaml")]:
        (tmp_path / file.relative_to(ROOT / "spec")).write_bytes(file.read_bytes())
    text = (ROOT / "tests/data/burn/burn_2026_09.yaml").read_text()
    text = text.replace("    cfg: cube_backend\n", "    cfg: cube_backend\n    kernels: burn.cube:Cube\n")
    (tmp_path / "backends.yaml").write_text(text)
    found = matrix_of(tmp_path, "cuda", "vulkan", default=False)
    arms = {cell.runtime: cell.arm for cell in found if cell.op == "all_reduce" and cell.backend == "Cube"}
    assert {runtime: (arm.kind, arm.situation) for runtime, arm in arms.items()} == {
        "cuda": ("kernel", None),
        "rocm": ("absent", "not_built"),
        "cpu": ("absent", "not_built"),
        "wgpu": ("error", "not_capable"),
        "vulkan": ("error", "not_capable"),
        "webgpu": ("absent", "not_built"),
        "metal": ("absent", "not_built"),
    }


def test_cells_grow_with_the_backends_and_no_faster(workshop: Workshop) -> None:
    catalog = workshop.catalog
    hammer = catalog.backends[0]
    work = tuple(family for family in catalog.families if family.requires)

    def count(backends: int) -> int:
        many = tuple(replace(hammer, name=f"B{number}", id=number) for number in range(backends))
        found = cells(replace(catalog, backends=many, families=work), workshop.template_set, workshop.build())
        return len(found)

    assert count(200) == 10 * count(20)
