"""What `python -m tests.mutation` is told exists, and its own operators do what they say."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from tests.mutation.parts import ROOT, Part, parts, silent

EXPLAINED = Path(__file__).parent / "explained.yaml"


@pytest.mark.parametrize("part", parts().values(), ids=lambda part: part.name)
def test_the_modules_and_tests_of_a_part_are_there(part: Part) -> None:
    for pattern in part.modules:
        assert list(ROOT.glob(pattern)), pattern
    for test in part.tests:
        path, _, name = test.partition("::")
        assert (ROOT / path).exists(), test
        assert not name or f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), test


def test_what_is_explained_is_there_and_of_a_part() -> None:
    listed = yaml.safe_load(EXPLAINED.read_text(encoding="utf-8"))
    assert listed
    mutated = {str(file) for part in parts().values() for file in part.files}
    for each in listed:
        assert set(each) == {"file", "old", "new", "why"}
        assert each["file"] in mutated
        text = " ".join((ROOT / each["file"]).read_text(encoding="utf-8").split())
        assert " ".join(each["old"].split()) in text, each
        assert each["old"] != each["new"]
    changes = [(each["file"], each["old"], each["new"]) for each in listed]
    assert len(set(changes)) == len(changes)


def test_what_only_a_type_checker_reads_is_not_changed() -> None:
    source = dedent("""\
        if TYPE_CHECKING:
            import a
        @dataclass(frozen=True)
        class A:
            x: int | None = 1 | 2
            @lru_cache(maxsize=3)
            def f(self, y: int | None) -> str | None:
                return y | 1
        """)
    lines = source.splitlines()
    found = [
        lines[start[0] - 1][start[1] : end[1]] if start[0] == end[0] else lines[start[0] - 1]
        for start, end in silent(source)
    ]
    told = ["lru_cache(maxsize=3)", "int | None", "int | None", "str | None"]
    assert sorted(found) == sorted(["@dataclass(frozen=True)", "if TYPE_CHECKING:", *told])


def test_own_operators_do_what_their_examples_say() -> None:
    pytest.importorskip("cosmic_ray", reason="needs `pip install -e '.[mutation]'`")
    from cosmic_ray.mutating import mutate_code

    from tests.mutation.operators import Provider

    for operator in Provider.operators.values():
        assert operator.examples()
        for each in operator.examples():
            made = mutate_code(each.pre_mutation_code, operator(), each.occurrence)
            assert (made or each.pre_mutation_code) == each.post_mutation_code
