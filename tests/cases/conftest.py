"""`pytest tests/cases --update` writes what the cases expect."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="write what the cases expect instead of comparing")
