"""What the tests of the Python package share: each runs in a folder of its own, with caches of the whole session."""

import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session", autouse=True)
def caches(tmp_path_factory):
    """Nothing is read from or left in the user's own folders."""
    os.environ["SSKP_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    os.environ["MINARI_DATASETS_PATH"] = str(tmp_path_factory.mktemp("minari"))
    os.environ["SSKP_DATA"] = str(ROOT / "data")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path
