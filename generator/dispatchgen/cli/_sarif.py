"""Findings as SARIF 2.1.0, the format that code hosts turn into annotations."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dispatchgen import __version__
from dispatchgen.findings import CODES, Finding

if TYPE_CHECKING:
    from dispatchgen.source import Span


def sarif(findings: Iterable[Finding]) -> str:
    """A log with one run. Every code that occurs is a rule; what to do about a finding stands in its message."""
    found = [*findings]
    codes = sorted({finding.code for finding in found})
    rules = [
        {"id": code, "shortDescription": {"text": _first(CODES[code])}, "fullDescription": {"text": CODES[code]}}
        for code in codes
    ]
    driver = {"name": "dispatchgen", "version": __version__, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, codes.index(finding.code)) for finding in found],
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=False)


def _first(text: str) -> str:
    """The first sentence."""
    return text.partition(". ")[0].rstrip(".") + "."


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    message = finding.message + (f"\nhelp: {finding.fix}" if finding.fix else "")
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": finding.severity.value,
        "message": {"text": message},
    }
    if finding.span:
        result["locations"] = [{"physicalLocation": _location(finding.span)}]
    if finding.related:
        result["relatedLocations"] = [
            {"id": number, "physicalLocation": _location(related.span), "message": {"text": related.message}}
            for number, related in enumerate(finding.related)
        ]
    return result


def _location(span: Span) -> dict[str, Any]:
    region = {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": span.end_column,
    }
    return {"artifactLocation": {"uri": _uri(span.file)}, "region": region}


def _uri(file: str) -> str:
    """The file as a URI: relative to the folder that the log is about, where it was named so."""
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(PurePath(file).as_posix())
