"""The tests of hostile input start from the small project that the other tests start from."""

from tests.unit.conftest import toy_folder

__all__ = ["toy_folder"]
