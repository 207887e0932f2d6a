"""What the generated package offers is complete, importable, typed and documented."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import pytest

import torchdispatch as td
from torchdispatch.errors import ERRORS
from torchdispatch.ops import collective, distributed, point_to_point, transfer

OWN = ("torchdispatch", "dispatch_runtime")


def own_members(kind: type[Any]) -> list[tuple[str, Any]]:
    return [
        (f"{kind.__name__}.{name}", member)
        for name, member in vars(kind).items()
        if not name.startswith("_")
        and (inspect.isfunction(member) or isinstance(member, property | classmethod | staticmethod))
    ]


def test_all_is_sorted_and_complete() -> None:
    assert len(set(td.__all__)) == len(td.__all__)
    constants = [name for name in td.__all__ if name.isupper()]
    classes = [name for name in td.__all__ if name[0].isupper() and name not in constants]
    functions = [name for name in td.__all__ if name[0].islower()]
    assert list(td.__all__) == sorted(constants) + sorted(classes) + sorted(functions)
    seen = {name for name, value in vars(td).items() if not name.startswith("_") and not isinstance(value, ModuleType)}
    seen -= {"annotations", "NoReturn"}
    assert seen == set(td.__all__)


def test_star_import_gives_all_of_it() -> None:
    namespace: dict[str, Any] = {}
    exec("from torchdispatch import *", namespace)
    assert set(td.__all__) <= set(namespace)


def test_every_backend_error_and_op_is_there() -> None:
    assert set(td.BACKENDS) <= set(td.__all__)
    for module in (collective, distributed, point_to_point, transfer):
        assert set(module.__all__) <= set(td.__all__)
        for name in module.__all__:
            assert getattr(td, name) is getattr(module, name)
    for entry in ERRORS.entries.values():
        assert getattr(td, entry.exception.__name__) is entry.exception
        assert issubclass(entry.exception, td.DispatchError)


@pytest.mark.parametrize("name", td.__all__)
def test_every_public_name_is_documented(name: str) -> None:
    value = getattr(td, name)
    if inspect.isfunction(value) or inspect.isclass(value):
        doc = inspect.getdoc(value) if not inspect.isclass(value) else value.__doc__
        assert doc, name
        assert doc.strip()[0].isupper() or doc.strip()[0] == "`", doc
    if inspect.isclass(value) and value.__module__.partition(".")[0] in OWN:
        bare = [path for path, member in own_members(value) if not inspect.getdoc(member)]
        assert not bare, bare


@pytest.mark.parametrize("name", [name for name in td.__all__ if inspect.isfunction(getattr(td, name))])
def test_every_function_is_annotated(name: str) -> None:
    signature = inspect.signature(getattr(td, name))
    assert signature.return_annotation is not inspect.Signature.empty
    assert all(each.annotation is not inspect.Parameter.empty for each in signature.parameters.values())


def test_dispatch_has_every_op() -> None:
    for module in (collective, distributed, point_to_point, transfer):
        for name in module.__all__:
            assert callable(getattr(td.Dispatch(), name))


def test_unknown_names_are_unknown_as_usual() -> None:
    with pytest.raises(AttributeError, match="module 'torchdispatch' has no attribute 'all_reduc'"):
        _ = td.all_reduc  # type: ignore[attr-defined]
    with pytest.raises(ImportError):
        exec("from torchdispatch import all_reduc")
