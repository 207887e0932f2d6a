"""Predicates over feature flags, in the grammar of Rust's cfg: parse, print, evaluate, explain, simplify.

`parse(str(p)) == p` holds for every predicate.
"""

from __future__ import annotations

from dispatchgen.predicate.text import NAME, WORDS, PredicateError, parse
from dispatchgen.predicate.tree import (
    All,
    Any,
    Cfgs,
    Const,
    Feature,
    Flag,
    Mentions,
    Not,
    Predicate,
    atoms,
    mentions,
)
from dispatchgen.predicate.truth import Explained, evaluate, explain, simplify

__all__ = [
    "NAME",
    "WORDS",
    "All",
    "Any",
    "Cfgs",
    "Const",
    "Explained",
    "Feature",
    "Flag",
    "Mentions",
    "Not",
    "Predicate",
    "PredicateError",
    "atoms",
    "evaluate",
    "explain",
    "mentions",
    "parse",
    "simplify",
]
