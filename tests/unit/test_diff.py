"""What another version of the shipped catalog changes: one edit each, and the changes that are to be told."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest

from dispatchgen.diff import Rating, Spec, compare
from dispatchgen.diff import backends as backend_rules
from dispatchgen.diff import errors as error_rules
from dispatchgen.diff import ops as op_rules
from dispatchgen.features import Selection
from dispatchgen.findings import has_errors
from dispatchgen.matrix import cells
from dispatchgen.model.build import read_catalog
from dispatchgen.model.catalog import (
    Argument,
    Backend,
    BackwardRule,
    Capability,
    Catalog,
    Cfg,
    Entry,
    ErrorEntry,
    Exemption,
    Family,
    Feature,
    Op,
    Pair,
    PairException,
    Returns,
    Runtime,
    Wrapper,
)
from dispatchgen.predicate import Const
from dispatchgen.template_set import by_name
from dispatchgen.validate import validate
from tests import shipped

ROOTS = (shipped.ROOT, shipped.ROOT / "generator")
BACKENDS, ERRORS, EXEMPTIONS = "backends.yaml", "errors.yaml", "exemptions.yaml"
SYNC, COLLECTIVE, PEERS = "ops/distributed.yaml", "ops/collective.yaml", "ops/point_to_point.yaml"
LINES = {name: (shipped.SPEC / name).read_text(encoding="utf-8") for name in (BACKENDS, SYNC, COLLECTIVE, EXEMPTIONS)}


def part(name: str, start: str, end: str) -> str:
    """The stretch of a file from one text up to another one."""
    text = LINES[name]
    return text[text.index(start) : text.index(end)]


METAL = part(BACKENDS, "  - name: Metal", "  - name: NdArray")
COMM_DEVICE = part(SYNC, "  - name: comm_device", "  - name: float_from_ref")
BARRIER = LINES[COLLECTIVE][LINES[COLLECTIVE].index("  - name: barrier") :]
TAKERS = "{name: devices, type: devices, default: null, doc: Who takes part; None means all of the group.}"
REMOTE = LINES[EXEMPTIONS][LINES[EXEMPTIONS].index("exemptions:\n") :]
EXEMPT = "  - {op: barrier, reason: nobody waits, until: 2027-03-31}\n"

Edit = tuple[str, str, str]


@dataclass(frozen=True)
class Case:
    """An edit of spec files, and what it changes."""

    edits: tuple[Edit, ...]
    changes: tuple[str, ...]


def edited(*edits: Edit) -> Spec:
    """The shipped spec with texts replaced, all that there are of each."""
    texts: dict[Path, str] = {}
    for name, old, new in edits:
        path = shipped.SPEC / name
        text = texts.get(path) or path.read_text(encoding="utf-8")
        assert old in text, f"{old!r} does not stand in {name}"
        texts[path] = text.replace(old, new)
    contents = {path: text.encode() for path, text in texts.items()}
    catalog, findings = read_catalog(shipped.SPEC, shipped.template_set(), edited=contents)
    assert catalog is not None, findings
    findings += validate(catalog, shipped.template_set())
    assert not has_errors(findings), findings
    return Spec(catalog, shipped.template_set())


def the_shipped() -> Spec:
    return Spec(shipped.catalog_of(), shipped.template_set())


def told(old: Spec, new: Spec) -> tuple[str, ...]:
    """The changes, without how many more there are than those that are named: the catalog grows."""
    return tuple(_short(str(each)) for each in compare(old, new).changes)


def _short(text: str) -> str:
    text = re.sub(r"(^|: )\d+ ops [^:]* on ", r"\1several ops on ", text)
    return re.sub(r" and \d+ more", " and more", text)


NOTHING: dict[str, tuple[Edit, ...]] = {
    "a comment": ((BACKENDS, "version: 1\n", "version: 1\n# a remark\n"),),
    "entries in another order": ((BACKENDS, METAL, ""), (BACKENDS, "  - name: Capture", METAL + "  - name: Capture")),
    "operations in another order": (
        (SYNC, COMM_DEVICE, ""),
        (SYNC, "  - name: set_distributed_params", COMM_DEVICE + "  - name: set_distributed_params"),
    ),
    "features in another order": ((BACKENDS, "  cpu: []\n  cuda: []", "  cuda: []\n  cpu: []"),),
    "other quotes": ((BACKENDS, 'feature = "metal"', "'feature = \"metal\"'"),),
    "the order of what default turns on": ((BACKENDS, "[cpu, cuda,", "[cuda, cpu,"),),
}


@pytest.mark.parametrize("edits", NOTHING.values(), ids=NOTHING)
def test_what_makes_no_difference(edits: tuple[Edit, ...]) -> None:
    found = compare(the_shipped(), edited(*edits))
    assert found.changes == ()
    assert found.rating is None
    assert found.builds == 2 + 10 + 1 + 45
    one = cells(shipped.catalog_of(), shipped.template_set(), shipped.build_of(shipped.catalog_of()))
    assert found.cells == found.builds * len(one)


def test_a_file_that_moved(tmp_path: Path) -> None:
    shutil.copytree(shipped.SPEC, tmp_path / "spec")
    (tmp_path / "spec" / COLLECTIVE).rename(tmp_path / "spec" / "ops" / "among_all.yaml")
    assert told(the_shipped(), Spec(shipped.catalog_of(tmp_path / "spec"), shipped.template_set())) == ()


METAL_BUILDS = "feature metal, features cuda,metal, features rocm,metal and more"
KERNEL_OF_BARRIER = "def barrier(self, devices: Sequence[Device]"
KERNEL_OF_IS = "def is_distributed(self, tensor: torch.Tensor"

CASES: dict[str, Case] = {
    "a backend removed": Case(((BACKENDS, METAL, ""),), ("major: backend Metal: removed",)),
    "a backend added": Case(
        ((BACKENDS, METAL, METAL + '  - {name: Tin, id: 70, cfg: feature = "metal", torch_device: tin}\n'),),
        ("minor: backend Tin: added",),
    ),
    "a backend renamed": Case(
        ((BACKENDS, "name: Metal", "name: Apple"),), ("major: backend Metal: renamed to Apple",)
    ),
    "a runtime removed": Case(
        ((BACKENDS, "      - {name: mtia}\n", ""),), ("major: runtime mtia of LibTorch: removed",)
    ),
    "a runtime added": Case(
        ((BACKENDS, "      - {name: mtia}\n", "      - {name: mtia}\n      - {name: vpu}\n"),),
        ("minor: runtime vpu of LibTorch: added",),
    ),
    "the engine of a runtime": Case(
        ((BACKENDS, "{name: npu, distributed: {engine: hccl}}", "{name: npu, distributed: {engine: gloo}}"),),
        ("major: runtime npu of LibTorch, distributed: engine hccl -> gloo",),
    ),
    "a runtime that is not always there": Case(
        ((BACKENDS, "      - {name: mtia}\n", '      - {name: mtia, cfg: feature = "cpu"}\n'),),
        (
            "major: runtime mtia of LibTorch: not any more with feature libtorch, features cuda,libtorch, "
            'features rocm,libtorch and more (cfg true -> feature = "cpu")',
        ),
    ),
    "a predicate narrowed": Case(
        ((BACKENDS, 'cfg: feature = "metal"', 'cfg: all(feature = "metal", feature = "cpu")'),),
        (
            f"major: backend Metal: not any more with {METAL_BUILDS} "
            '(cfg feature = "metal" -> all(feature = "metal", feature = "cpu"))',
        ),
    ),
    "a predicate widened": Case(
        ((BACKENDS, 'cfg: feature = "metal"', 'cfg: any(feature = "metal", feature = "cpu")'),),
        (
            "minor: backend Metal: now also with feature cpu, features cpu,cuda, features cpu,rocm and more "
            '(cfg feature = "metal" -> any(feature = "metal", feature = "cpu"))',
        ),
    ),
    "a predicate that three features together decide": Case(
        (
            (
                BACKENDS,
                'cfg: feature = "metal"',
                'cfg: all(feature = "metal", not(all(feature = "cpu", feature = "cuda", feature = "rocm")))',
            ),
        ),
        (
            "major: backend Metal: not any more with default features, all features, features metal,cpu,cuda,rocm "
            '(cfg feature = "metal" -> '
            'all(feature = "metal", not(all(feature = "cpu", feature = "cuda", feature = "rocm"))))',
        ),
    ),
    "a predicate in other words": Case(
        ((BACKENDS, 'cfg: feature = "metal"', 'cfg: all(feature = "metal")'),),
        ('patch: backend Metal: cfg feature = "metal" -> all(feature = "metal")',),
    ),
    "a predicate by a new cfg": Case(
        (
            (BACKENDS, "\nwrappers:", '\ncfgs:\n  apple: feature = "metal"\n\nwrappers:'),
            (BACKENDS, '    cfg: feature = "metal"', "    cfg: apple"),
        ),
        ("minor: cfg apple: added", 'patch: backend Metal: cfg feature = "metal" -> apple'),
    ),
    "a feature removed": Case(
        ((BACKENDS, " metal,", ""), (BACKENDS, "  metal: []\n", ""), (BACKENDS, METAL, "")),
        (
            "major: feature metal: removed",
            "major: feature default: does not turn on metal any more",
            "major: backend Metal: removed",
        ),
    ),
    "a feature added": Case(
        ((BACKENDS, "  metal: []\n", "  metal: []\n  more: [cpu]\n"),), ("minor: feature more: added",)
    ),
    "a feature renamed": Case(
        ((BACKENDS, " metal,", " apple,"), (BACKENDS, "  metal: []", "  apple: []"), (BACKENDS, '"metal"', '"apple"')),
        ("major: feature metal: renamed to apple",),
    ),
    "a feature edge added": Case(
        ((BACKENDS, "  cuda: []", "  cuda: [cpu]"),),
        (
            "minor: feature cuda: turns on cpu too",
            "minor: backend Cpu: now also with feature cuda, features cuda,rocm, features cuda,xpu and more",
        ),
    ),
    "default features changed": Case(
        ((BACKENDS, " metal, ndarray,", " ndarray,"),),
        (
            "major: feature default: does not turn on metal any more",
            "major: backend Metal: not any more with default features",
        ),
    ),
    "a wrapper narrowed": Case(
        ((BACKENDS, '    cfg: feature = "autodiff"', "    cfg: false"),),
        (
            "major: wrapper Autodiff: not any more with default features, feature autodiff, all features and more "
            '(cfg feature = "autodiff" -> false)',
            # what refused a plain tensor for want of the wrapper says now that there is none
            "major: op set_distributed_params on Cpu: error TD202 PlainTensor -> error TD102 NotBuilt, with default "
            "features, all features, features cpu,autodiff",
            "major: op set_distributed_params on Cuda: error TD202 PlainTensor -> error TD102 NotBuilt, with default "
            "features, all features, features cuda,autodiff",
            "major: op set_distributed_params on Rocm: error TD202 PlainTensor -> error TD102 NotBuilt, with default "
            "features, all features, features rocm,autodiff",
            "major: op set_distributed_params on Xpu: error TD202 PlainTensor -> error TD102 NotBuilt, with default "
            "features, all features, features xpu,autodiff",
            "major: op set_distributed_params on LibTorch[hpu], LibTorch[npu]: error TD202 PlainTensor -> error TD102 "
            "NotBuilt, with default features, all features, features libtorch,autodiff",
        ),
    ),
    "a backend that cannot be wrapped any more": Case(
        ((BACKENDS, "    priority: 40\n", "    priority: 40\n    autodiff: false\n"),),
        ("major: backend Metal: wrappers [Autodiff] -> []",),
    ),
    "a capability lost": Case(
        ((BACKENDS, "      - {name: npu, distributed: {engine: hccl}}", "      - {name: npu}"),),
        (
            "major: runtime npu of LibTorch: capability distributed lost",
            "major: several ops on LibTorch[npu]: "
            "kernel -> error TD101 NotCapable",
            "major: several ops on Autodiff(LibTorch[npu]): "
            "kernel -> error TD101 NotCapable",
            "major: op set_distributed_params on LibTorch[npu]: error TD202 PlainTensor -> error TD101 NotCapable, "
            "with default features, all features, features libtorch,autodiff",
            "major: several ops on Autodiff(LibTorch[npu]), LibTorch[npu]: "
            "kernel -> answer without a kernel",
            "major: op set_distributed_params on LibTorch[npu]: error TD102 NotBuilt -> error TD101 NotCapable, "
            "with feature libtorch, features cpu,libtorch, features cuda,libtorch and more",
        ),
    ),
    "a capability gained": Case(
        ((BACKENDS, "      - {name: mtia}\n", "      - {name: mtia, distributed: {engine: gloo}}\n"),),
        (
            "minor: runtime mtia of LibTorch: capability distributed gained",
            "minor: several ops on LibTorch[mtia]: "
            "error TD101 NotCapable -> kernel",
            "minor: several ops on Autodiff(LibTorch[mtia]): "
            "error TD101 NotCapable -> kernel",
            "minor: op set_distributed_params on LibTorch[mtia]: error TD101 NotCapable -> error TD202 PlainTensor, "
            "with default features, all features, features libtorch,autodiff",
            "minor: several ops on Autodiff(LibTorch[mtia]), LibTorch[mtia]: "
            "answer without a kernel -> kernel",
            "minor: op set_distributed_params on LibTorch[mtia]: error TD101 NotCapable -> error TD102 NotBuilt, "
            "with feature libtorch, features cpu,libtorch, features cuda,libtorch and more",
        ),
    ),
    "an id": Case(((BACKENDS, "id: 7", "id: 8"),), ("major: backend Metal: id 7 -> 8",)),
    "ids swapped": Case(
        ((BACKENDS, "id: 7", "id: 70"), (BACKENDS, "id: 6", "id: 7"), (BACKENDS, "id: 70", "id: 6")),
        ("major: backend Metal: id 7 -> 6", "major: backend NdArray: id 6 -> 7"),
    ),
    "a priority that changes the order": Case(
        ((BACKENDS, "priority: 40", "priority: 5"),), ("major: backend Metal: priority 40 -> 5",)
    ),
    "a priority that does not": Case(
        ((BACKENDS, "priority: 40", "priority: 41"),), ("patch: backend Metal: priority 40 -> 41",)
    ),
    "no priority any more": Case(
        ((BACKENDS, "    priority: 40\n", ""),), ("major: backend Metal: priority 40 -> nothing",)
    ),
    "another kernel class": Case(
        ((BACKENDS, "backends.metal:Metal", "backends.cpu:Cpu"),),
        (
            "patch: backend Metal: kernels dispatch_runtime.backends.metal:Metal -> dispatch_runtime.backends.cpu:Cpu",
        ),
    ),
    "a key of the template set": Case(
        ((BACKENDS, "torch_build: hip", "torch_build: zluda"),), ("major: backend Rocm: torch_build hip -> zluda",)
    ),
    "the doc of a backend": Case(
        ((BACKENDS, "Apple GPUs through", "GPUs of Apple through"),), ("patch: backend Metal: doc changed",)
    ),
    "nothing goes in any more": Case(
        ((BACKENDS, "    transfer: into\n", "    transfer: none\n"),),
        (
            "major: backend Capture: transfer into -> none",
            "major: op to_device on Autodiff(Cpu) to Capture, Autodiff(Cuda) to Capture, "
            "Autodiff(LibTorch[hpu]) to Capture and more: kernel -> error TD107 NoTransfer",
        ),
    ),
    "the package renamed": Case(
        ((BACKENDS, "package: torchdispatch", "package: other"),),
        ("major: package: renamed torchdispatch -> other",),
    ),
    "an operation removed": Case(((SYNC, COMM_DEVICE, ""),), ("major: op comm_device: removed",)),
    "an operation added": Case(
        ((SYNC, COMM_DEVICE, COMM_DEVICE + COMM_DEVICE.replace("comm_device", "home_of").replace("error", "error")),),
        ("minor: op home_of: added",),
    ),
    "an operation renamed": Case(
        (
            (SYNC, "name: all_reduce", "name: sum_up"),
            (SYNC, "op: all_reduce", "op: sum_up"),
            (COLLECTIVE, "op: all_reduce", "op: sum_up"),
        ),
        ("major: op all_reduce: renamed to sum_up",),
    ),
    "an operation renamed, and more": Case(
        ((SYNC, COMM_DEVICE, COMM_DEVICE.replace("comm_device", "home_of").replace("tensor_ref,", "ref,", 1)),),
        ("major: op comm_device: removed", "minor: op home_of: added"),
    ),
    "an operation in another family": Case(
        ((SYNC, COMM_DEVICE, ""), (COLLECTIVE, "\nops:\n", f"\nops:\n{COMM_DEVICE}")),
        ("major: op comm_device: moved from DistributedOps to CollectiveOps",),
    ),
    "a family renamed": Case(
        ((PEERS, "family: PointToPointOps", "family: PeerOps"),),
        ("major: family PointToPointOps: renamed to PeerOps",),
    ),
    "a family that asks for no capability": Case(
        (
            (PEERS, "requires: distributed\n", ""),
            (PEERS, "    otherwise: error\n", ""),
        ),
        (
            "minor: family PointToPointOps: requires distributed -> nothing",
            "minor: op send: otherwise error -> nothing",
            "minor: op recv: otherwise error -> nothing",
            "minor: several ops on Autodiff(LibTorch[mtia]), Autodiff(LibTorch[xla]), Autodiff(Metal) and more: "
            "error TD101 NotCapable -> kernel",
        ),
    ),
    "an argument added with a default": Case(
        (
            (
                SYNC,
                "tensor on any device.}\n    returns: {type: bool}",
                "tensor on any device.}\n      - {name: timeout, type: timeout, default: null}\n    returns: {type: bool}",
            ),
        ),
        (
            f"major: kernels of is_distributed: {KERNEL_OF_IS}) -> bool -> "
            f"{KERNEL_OF_IS}, timeout: float | None) -> bool",
            "minor: op is_distributed: argument timeout added with a default",
        ),
    ),
    "an argument added without a default": Case(
        (
            (
                SYNC,
                "tensor on any device.}\n    returns: {type: bool}",
                "tensor on any device.}\n      - {name: key, type: param_id}\n    returns: {type: bool}",
            ),
        ),
        (
            "major: op is_distributed: argument key added without a default",
            f"major: kernels of is_distributed: {KERNEL_OF_IS}) -> bool -> {KERNEL_OF_IS}, key: ParamId) -> bool",
        ),
    ),
    "an argument that no kernel sees, before others": Case(
        ((COLLECTIVE, BARRIER, BARRIER.replace(TAKERS, "{name: at, type: device, default: null}\n      - " + TAKERS)),),
        ("major: op barrier: argument at added with a default",),
    ),
    "an argument that no kernel sees, behind others": Case(
        ((COLLECTIVE, BARRIER, BARRIER.replace(TAKERS, TAKERS + "\n      - {name: at, type: device, default: null}")),),
        ("minor: op barrier: argument at added with a default",),
    ),
    "an argument removed": Case(
        (
            (
                SYNC,
                "      - {name: config, type: config, default: null, doc: How the group meets and reduces; None takes the "
                "defaults.}\n",
                "",
            ),
        ),
        (
            "major: op start_communication_server: argument config removed",
            "major: kernels of start_communication_server: def start_communication_server(self, devices: "
            "Sequence[Device], config: DistributedConfig | None) -> None -> def start_communication_server(self, "
            "devices: Sequence[Device]) -> None",
        ),
    ),
    "an argument renamed": Case(
        ((SYNC, "{name: param_id, type: param_id", "{name: key, type: param_id"),),
        (
            "major: op set_distributed_params: argument param_id renamed to key",
            "major: kernels of set_distributed_params: def set_distributed_params(self, tensor: torch.Tensor, "
            "param_id: ParamId) -> torch.Tensor -> def set_distributed_params(self, tensor: torch.Tensor, "
            "key: ParamId) -> torch.Tensor",
        ),
    ),
    "arguments in another order": Case(
        (
            (
                SYNC,
                "      - {name: tensor, type: tensor, doc: A tracked float tensor.}\n"
                "      - {name: param_id, type: param_id, doc: The id under which its gradients meet those of the other "
                "devices.}\n",
                "      - {name: param_id, type: param_id, doc: The id under which its gradients meet those of the other "
                "devices.}\n      - {name: tensor, type: tensor, doc: A tracked float tensor.}\n",
            ),
        ),
        (
            "major: op set_distributed_params: arguments in another order: tensor, param_id -> param_id, tensor",
            "major: kernels of set_distributed_params: def set_distributed_params(self, tensor: torch.Tensor, "
            "param_id: ParamId) -> torch.Tensor -> def set_distributed_params(self, param_id: ParamId, "
            "tensor: torch.Tensor) -> torch.Tensor",
        ),
    ),
    "the type of an argument": Case(
        ((SYNC, "{name: params, type: param, doc", "{name: params, type: params, doc"),),
        (
            "major: op submit_gradient_sync, argument params: type param (DistributedParams) -> params "
            "(Sequence[DistributedParams])",
            "major: kernels of submit_gradient_sync: def submit_gradient_sync(self, tensor_ref: TensorRef, params: "
            "DistributedParams) -> None -> def submit_gradient_sync(self, tensor_ref: TensorRef, params: "
            "Sequence[DistributedParams]) -> None",
        ),
    ),
    "an argument that may be None": Case(
        ((SYNC, "{name: params, type: param, doc", "{name: params, type: param, optional: true, doc"),),
        (
            "major: kernels of submit_gradient_sync: def submit_gradient_sync(self, tensor_ref: TensorRef, params: "
            "DistributedParams) -> None -> def submit_gradient_sync(self, tensor_ref: TensorRef, params: "
            "DistributedParams | None) -> None",
            "minor: op submit_gradient_sync, argument params: type param (DistributedParams) -> param "
            "(DistributedParams | None)",
        ),
    ),
    "an argument without a default any more": Case(
        ((COLLECTIVE, BARRIER, BARRIER.replace("type: devices, default: null", "type: devices, optional: true")),),
        (
            "major: op barrier, argument devices: has no default any more: None",
            f"major: kernels of barrier: {KERNEL_OF_BARRIER}, timeout: float | None) -> None -> "
            f"{KERNEL_OF_BARRIER} | None, timeout: float | None) -> None",
        ),
    ),
    "an argument by keyword only, of another type": Case(
        ((COLLECTIVE, BARRIER, BARRIER.replace("type: timeout", "type: param_id")),),
        (
            "major: op barrier, argument timeout: type timeout (float | None) -> param_id (ParamId | None)",
            f"major: kernels of barrier: {KERNEL_OF_BARRIER}, timeout: float | None) -> None -> "
            f"{KERNEL_OF_BARRIER}, timeout: ParamId | None) -> None",
            "minor: op barrier, argument timeout: by position too now",
        ),
    ),
    "the doc of an argument": Case(
        ((COLLECTIVE, BARRIER, BARRIER.replace("Who takes part;", "Who is to come;")),),
        ("patch: op barrier, argument devices: doc changed",),
    ),
    "what is returned": Case(
        ((SYNC, "returns: {type: device}", "returns: {type: param}"),),
        (
            "major: op comm_device: returns device (Device) -> param (DistributedParams)",
            "major: kernels of comm_device: def comm_device(self, tensor_ref: TensorRef) -> Device -> "
            "def comm_device(self, tensor_ref: TensorRef) -> DistributedParams",
        ),
    ),
    "an answer where there was an error": Case(
        (
            (
                SYNC,
                "returns: {type: device}\n    otherwise: error",
                "returns: {type: device, optional: true}\n    otherwise: none",
            ),
        ),
        (
            "major: op comm_device: otherwise error -> none",
            "major: op comm_device: may return nothing now",
            "major: kernels of comm_device: def comm_device(self, tensor_ref: TensorRef) -> Device -> "
            "def comm_device(self, tensor_ref: TensorRef) -> Device | None",
            "major: op comm_device on Autodiff(LibTorch[mtia]), Autodiff(LibTorch[xla]), Autodiff(Metal) and more: "
            "error TD101 NotCapable -> answer without a kernel",
            "major: op comm_device on Autodiff(Remote), Remote: error TD103 Unavailable -> answer without a kernel",
        ),
    ),
    "fewer kinds": Case(
        ((SYNC, "kinds: [Float, Int, Bool]", "kinds: [Float]"),),
        ("major: op all_reduce: kinds [Float, Int, Bool] -> [Float]",),
    ),
    "more kinds": Case(
        ((SYNC, "kinds: [Float, Int, Bool]", "kinds: [Float, Int, Bool, Quantized]"),),
        ("minor: op all_reduce: kinds [Float, Int, Bool] -> [Float, Int, Bool, Quantized]",),
    ),
    "another route": Case(
        (
            (SYNC, "    route: tensor_ref\n    args:\n      - {name: tensor_ref, type: tensor_ref, doc: The reference.}\n"
             "    returns: {type: device}",
             "    route: tensor\n    args:\n      - {name: tensor_ref, type: tensor, doc: The reference.}\n"
             "    returns: {type: device}"),
        ),
        (
            "major: op comm_device: route tensor_ref -> tensor",
            "major: op comm_device, argument tensor_ref: type tensor_ref (TensorRef) -> tensor (TensorLike)",
            "major: kernels of comm_device: def comm_device(self, tensor_ref: TensorRef) -> Device -> "
            "def comm_device(self, tensor_ref: torch.Tensor) -> Device",
        ),
    ),
    "a backward rule removed": Case(
        ((SYNC, "      MEAN: {op: all_reduce, with: MEAN}\n", ""),),
        ("major: op all_reduce: gradient for MEAN removed",),
    ),
    "a backward rule added": Case(
        ((SYNC, "      MEAN: {op: all_reduce, with: MEAN}\n",
          "      MEAN: {op: all_reduce, with: MEAN}\n      MAX: {op: all_reduce, with: MAX}\n"),),
        ("minor: op all_reduce: gradient for MAX added",),
    ),
    "another backward rule": Case(
        ((SYNC, "MEAN: {op: all_reduce, with: MEAN}", "MEAN: {op: all_reduce, with: SUM}"),),
        ("major: op all_reduce, gradient for MEAN: with_ MEAN -> SUM",),
    ),
    "no gradient any more": Case(
        ((SYNC, "    backward: native\n", ""),),
        ("major: op set_distributed_params: gradient native -> none",),
    ),
    "the doc of an operation": Case(
        ((SYNC, "The device that the referenced tensor lives on.", "Where the referenced tensor lives."),),
        ("patch: op comm_device: doc changed",),
    ),
    "the code of an error": Case(((ERRORS, "code: TD103", "code: TD199"),), ("major: error TD103: code TD103 -> TD199",)),
    "codes swapped": Case(
        (
            (ERRORS, "code: TD103", "code: TD999"),
            (ERRORS, "code: TD104", "code: TD103"),
            (ERRORS, "code: TD999", "code: TD104"),
        ),
        ("major: error TD103: code TD103 -> TD104", "major: error TD104: code TD104 -> TD103"),
    ),
    "the class of an error": Case(
        ((ERRORS, "class: Unavailable", "class: NotThere"),),
        ("major: error TD103: exception Unavailable -> NotThere",),
    ),
    "the end of a message": Case(
        ((ERRORS, "message: All devices are expected to be", "message: All devices are taken to be"),),
        (
            "patch: error TD303: message All devices are expected to be of the same variant. -> "
            "All devices are taken to be of the same variant.",
        ),
    ),
    "the beginning of a message": Case(
        ((ERRORS, "message: All devices are expected", "message: Devices are expected"),),
        (
            "major: error TD303: message All devices are expected to be of the same variant. -> "
            "Devices are expected to be of the same variant.",
        ),
    ),
    "the help of an error": Case(
        ((ERRORS, "Generate the package again with what is missing", "Generate it again with what is missing"),),
        ("patch: error TD102: help changed",),
    ),
    "an exemption removed": Case(
        ((EXEMPTIONS, REMOTE, "exemptions: []\n"),),
        (
            "minor: several ops on Remote: error TD103 Unavailable -> kernel",
            "minor: several ops on Autodiff(Remote): error TD103 Unavailable -> kernel",
            "minor: op to_device on Autodiff(Cpu) to Remote, Autodiff(Cuda) to Remote, "
            "Autodiff(LibTorch[hpu]) to Remote and more: error TD103 Unavailable -> kernel",
            "minor: op set_distributed_params on Remote: error TD103 Unavailable -> error TD202 PlainTensor, "
            "with default features, all features, features remote,autodiff",
            "minor: several ops on Autodiff(Remote), Remote: answer without a kernel -> kernel",
            "minor: op set_distributed_params on Remote: error TD103 Unavailable -> error TD102 NotBuilt, "
            "with feature remote, features cpu,remote, features cuda,remote and more",
            "patch: exemption of Remote: removed",
        ),
    ),
    "an exemption added": Case(
        ((EXEMPTIONS, "exemptions:\n", f"exemptions:\n{EXEMPT}"),),
        (
            "major: op barrier on Autodiff(Cpu), Autodiff(Cuda), Autodiff(LibTorch[hpu]) and more: "
            "kernel -> error TD104 NoKernel",
            "patch: exemption of barrier: added",
        ),
    ),
    "another answer of an exemption": Case(
        ((EXEMPTIONS, "    answer: unavailable\n", ""),),
        (
            "major: several ops on Autodiff(Remote), Remote: "
            "error TD103 Unavailable -> error TD104 NoKernel",
            "major: op to_device on Autodiff(Cpu) to Remote, Autodiff(Cuda) to Remote, "
            "Autodiff(LibTorch[hpu]) to Remote and more: error TD103 Unavailable -> error TD104 NoKernel",
            "patch: exemption of Remote: answer unavailable -> no_kernel",
        ),
    ),
    "the last day of an exemption": Case(
        ((EXEMPTIONS, "2027-06-30", "2027-07-31"),),
        ("patch: exemption of Remote: until 2027-06-30 -> 2027-07-31",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_one_edit(case: Case) -> None:
    found = told(the_shipped(), edited(*case.edits))
    assert found == case.changes


HARMLESS = {name: case for name, case in CASES.items() if not case.changes[0].startswith("major")}


@pytest.mark.parametrize("case", HARMLESS.values(), ids=HARMLESS)
def test_the_way_back(case: Case) -> None:
    """What only adds something takes it away on the way back, and a change for people is one for people both ways."""
    back = compare(edited(*case.edits), the_shipped())
    worst = {each.partition(":")[0] for each in case.changes}
    assert back.rating is (Rating.MAJOR if "minor" in worst else Rating.PATCH)


def declared(**changed: object) -> Spec:
    return Spec(shipped.catalog_of(), replace(shipped.template_set(), **changed))  # type: ignore[arg-type]


def test_what_the_template_set_declares() -> None:
    of = shipped.template_set()
    choices = by_name(of.arguments)["reduce_operation"]
    assert told(
        the_shipped(),
        declared(
            arguments=tuple(
                replace(each, choices=("SUM", "MEAN", "MIN", "MAX", "XOR")) if each is choices else each
                for each in of.arguments
            ),
            capabilities=(replace(of.capabilities[0], engines=of.capabilities[0].engines[:-1]),),
            guards=(*of.guards[1:], replace(of.guards[0], name="is_one")),
            routes=of.routes[:-1],
        ),
    ) == (
        "major: capability distributed: engine remote removed",
        "major: route tensor_ref: removed",
        "major: argument type reduce_operation: choice PRODUCT removed",
        "major: guard is_distributed_capable: removed",
        "minor: argument type reduce_operation: choice XOR added",
        "minor: guard is_one: added",
    )


def test_annotations_of_the_template_set_count_where_operations_use_them() -> None:
    of = shipped.template_set()
    ids = by_name(of.arguments)["param_id"]
    wider = tuple(replace(each, public="int | str", kernel="int") if each is ids else each for each in of.arguments)
    assert told(the_shipped(), declared(arguments=wider)) == (
        "major: op set_distributed_params, argument param_id: type param_id (ParamId) -> param_id (int | str)",
        "major: kernels of set_distributed_params: def set_distributed_params(self, tensor: torch.Tensor, "
        "param_id: ParamId) -> torch.Tensor -> def set_distributed_params(self, tensor: torch.Tensor, "
        "param_id: int) -> torch.Tensor",
    )


def test_the_features_that_a_project_chooses() -> None:
    """They are one more build: the catalog is the same, and the package that comes of it is not."""
    old = replace(the_shipped(), selection=Selection(("cpu", "metal"), default=False))
    found = compare(old, replace(old, selection=Selection(("cpu",), default=False)))
    assert [str(each) for each in found.changes] == [
        "major: backend Metal: not any more with the features of the settings"
    ]
    assert found.builds == 59


def test_the_order_of_changes_does_not_depend_on_hashes() -> None:
    program = (
        "from tests.unit import test_diff as t; "
        "print(t.told(t.the_shipped(), t.edited(*t.CASES['a capability lost'].edits)))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=shipped.ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(map(str, (ROOTS)))},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(said) == 1


OTHER: dict[type, dict[str, object]] = {
    Catalog: {"package": "more"},
    Feature: {"name": "more", "implies": ("cuda",)},
    Cfg: {"name": "more", "predicate": Const(False)},
    Wrapper: {"cfg": Const(False), "doc": "more"},
    Backend: {
        "name": "More", "id": 77, "cfg": Const(False), "doc": "more", "kernels": "more:More", "capabilities": {},
        "wrappers": (), "transfer": "none", "priority": 77, "runtimes": (), "keys": {"torch_device": "more"},
    },
    Runtime: {"name": "more", "cfg": Const(False), "capabilities": {}},
    Capability: {"engine": "more"},
    Family: {"name": "MoreOps", "doc": "more", "ops": (), "requires": None},
    Op: {
        "name": "more", "doc": "more", "route": "more", "args": (), "otherwise": "more", "backward": "native",
        "wrapper": "more", "keys": {"kinds": ("Bool",)}, "exceptions": (),
    },
    Argument: {"name": "more", "type": "config", "doc": "more", "optional": True, "default": 77, "has_default": True},
    Returns: {"type": "param", "of": "device", "optional": True},
    BackwardRule: {"choice": "MORE", "op": "barrier", "with_": "MORE", "only": "more"},
    Pair: {"argument": "tensor", "out": "more", "into": "more", "carries": "bool"},
    PairException: {"source": "Metal", "target": "Metal", "reason": "more"},
    ErrorEntry: {
        "code": "TD999", "exception": "More", "when": "more", "message": "more", "reason": "more", "help": "more",
        "cause": "more", "before": "more", "after": "more", "guard": "more",
    },
    Exemption: {"reason": "more", "until": "2099-01-01", "backend": "Metal", "op": "recv", "answer": "more"},
}  # fmt: skip
"""Another value for each key of each kind of entry."""
HOLDS_ENTRIES = {"features", "cfgs", "wrappers", "backends", "families", "errors", "exemptions"}


def whole() -> Spec:
    """The shipped spec with an entry of every kind, and with few features, so that there are few builds."""
    catalog = shipped.catalog_of()
    nowhere = catalog.features[0].span
    pair = PairException(span=nowhere, source="Cpu", target="Cuda", reason="no way")
    families = (
        replace(each, ops=tuple(replace(op, exceptions=(pair,) if op.pair else ()) for op in each.ops))
        for each in catalog.families
    )
    cfgs = (Cfg(span=nowhere, name="always", predicate=Const(True)),)
    return Spec(
        replace(catalog, features=catalog.features[:3], cfgs=cfgs, families=tuple(families)), shipped.template_set()
    )


def mutants(value: Any, seen: set[tuple[type, str]]) -> Iterator[tuple[str, Any]]:
    """The value with one key of one entry inside changed, once for each key of each kind of entry."""
    if isinstance(value, tuple):
        for index, each in enumerate(value):
            for what, other in mutants(each, seen):
                yield what, (*value[:index], other, *value[index + 1 :])
    elif isinstance(value, Mapping):
        for key, each in value.items():
            for what, other in mutants(each, seen):
                yield what, {**value, key: other}
    elif isinstance(value, Entry | Catalog):
        for name in [each.name for each in fields(value) if each.compare]:
            for what, other in mutants(getattr(value, name), seen):
                yield what, replace(value, **{name: other})
            counts = name != "default" or (isinstance(value, Argument) and value.has_default)
            counts = counts and OTHER[type(value)].get(name, getattr(value, name)) != getattr(value, name)
            if counts and (type(value), name) not in seen:
                seen.add((type(value), name))
                yield f"{type(value).__name__}.{name}", replace(value, **{name: OTHER[type(value)][name]})


def test_no_key_of_any_entry_is_forgotten() -> None:
    """Whatever key of whatever entry says something else: it is told."""
    old, seen = whole(), set[tuple[type, str]]()
    assert compare(old, old).changes == ()
    silent = [
        what for what, catalog in mutants(old.catalog, seen) if not compare(old, replace(old, catalog=catalog)).changes
    ]
    assert silent == []
    everything = {(kind, each.name) for kind in OTHER for each in fields(kind) if each.compare}
    nested = {(Catalog, name) for name in HOLDS_ENTRIES} | {
        (Op, "returns"),
        (Op, "pair"),
        (Capability, "name"),
        (Wrapper, "name"),
    }
    assert everything - seen == nested | {
        (Catalog, "files"),
        (Catalog, "unreadable"),
    }, "a key that this test does not know"


def test_every_key_of_an_entry_is_rated() -> None:
    """A key that somebody adds to the catalog has to be rated, or said to be compared by a function."""
    for entry, rules, elsewhere in (
        (Backend, backend_rules.BACKEND, backend_rules.ELSEWHERE),
        (Op, op_rules.OP, op_rules.ELSEWHERE),
        (Family, op_rules.FAMILY, {"name", "ops"}),
        (ErrorEntry, error_rules.ERROR, {"when"}),
        (Exemption, error_rules.EXEMPTION, {"backend", "op"}),
    ):
        assert {each.name for each in fields(entry)} - {"span", "at"} == set(rules) | elsewhere, entry
        assert not set(rules) & elsewhere
