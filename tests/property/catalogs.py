"""Random catalogs that are right, as the folders that a person would have written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from tests.feature_space.reader import read
from tests.shipped import SPEC

FEATURES = st.from_regex(r"[a-z0-9_+.-]{1,6}", fullmatch=True)
FLAGS = st.from_regex(r"is_[a-z0-9]{1,4}", fullmatch=True)
RUNTIMES = st.from_regex(r"[A-Za-z0-9_+.-]{1,5}", fullmatch=True)
NAMES = st.from_regex(r"[A-Z][a-z0-9]{0,4}[A-Z]?x", fullmatch=True).filter(
    lambda name: name.lower() != "aux"
)  # no file on Windows
ENGINES = st.sampled_from(["gloo", "nccl", "mpi"])


def cfgs(features: list[str], flags: list[str]) -> st.SearchStrategy[str]:
    """The texts of predicates over these names."""
    leaves = st.sampled_from([f'feature = "{name}"' for name in features] + flags + ["true", "false"])

    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        parts = st.lists(inner, min_size=1, max_size=3).map(", ".join)
        return parts.map("all({})".format) | parts.map("any({})".format) | inner.map("not({})".format)

    return st.recursive(leaves, grown, max_leaves=4)


def unlike(names: list[str]) -> bool:
    """Whether no two of the names could be taken for each other in Python or by a file system."""
    return len({"".join(char if char.isalnum() else "_" for char in name.casefold()) for name in names}) == len(names)


@st.composite
def catalogs(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The contents of `backends.yaml` and of the files of `ops/`."""
    features = draw(st.lists(FEATURES.filter(lambda name: name != "default"), min_size=1, max_size=5, unique=True))
    implied = {
        name: draw(st.lists(st.sampled_from(features[:at]), unique=True, max_size=2)) if at else []
        for at, name in enumerate(features)
    }
    flags: list[str] = draw(st.lists(FLAGS, max_size=3, unique=True))
    defined = {name: draw(cfgs(features, flags[:at])) for at, name in enumerate(flags)}
    cfg = cfgs(features, flags)
    names = draw(st.lists(NAMES, min_size=1, max_size=5, unique=True).filter(unlike))
    runtimes = draw(st.lists(RUNTIMES, max_size=4, unique=True).filter(lambda made: unlike([*made, *names])))
    ids = draw(st.lists(st.integers(0, 65535), min_size=len(names), max_size=len(names), unique=True))
    backends = []
    for at, name in enumerate(names):
        entry: dict[str, Any] = {"name": name, "id": ids[at], "cfg": draw(cfg)}
        if at == 0 and runtimes:
            entry["runtimes"] = [
                {"name": each, **draw(st.fixed_dictionaries({}, optional={"cfg": cfg}))} for each in runtimes
            ]
            for each in entry["runtimes"]:
                if draw(st.booleans()):
                    each["distributed"] = {"engine": draw(ENGINES)}
        elif draw(st.booleans()):
            entry["distributed"] = {"engine": draw(ENGINES)}
        entry |= draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "transfer": st.sampled_from(["both", "into", "out", "none"]),
                    "autodiff": st.booleans(),
                    "addressed": st.just(True) if "runtimes" not in entry else st.just(False),
                },
            )
        )
        backends.append(entry)
    content: dict[str, Any] = {"version": 1, "package": "space", "features": implied, "cfgs": defined}
    if draw(st.booleans()):
        content["wrappers"] = [{"name": "Autodiff", "cfg": draw(cfg)}]
    families = [dict(read(path)) for path in sorted((SPEC / "ops").glob("*.yaml"))]
    for family in families:
        kept = draw(st.permutations(family["ops"]))[: draw(st.integers(1, len(family["ops"])))]
        family["ops"] = [dict(op) for op in kept]
    families = draw(st.permutations(families))[: draw(st.integers(1, len(families)))]
    there = {op["name"] for family in families for op in family["ops"]}
    for op in (op for family in families for op in family["ops"]):
        rules = op.get("backward")
        if isinstance(rules, dict) and not all(rule["op"] in there for rule in rules.values()):
            del op["backward"]  # the operation of the gradient was left out
    return {**content, "backends": backends}, families


def written(catalog: tuple[dict[str, Any], list[dict[str, Any]]], folder: Path) -> Path:
    """The spec folder of a catalog, with this project's errors."""
    content, families = catalog
    (folder / "ops").mkdir(parents=True)
    (folder / "backends.yaml").write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    for number, family in enumerate(families):
        text = yaml.safe_dump(family, sort_keys=False)
        (folder / "ops" / f"{number}.yaml").write_text(text, encoding="utf-8")
    (folder / "errors.yaml").write_bytes((SPEC / "errors.yaml").read_bytes())
    return folder
