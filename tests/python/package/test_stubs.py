"""The stubs name what there is."""

import ast
import inspect
import pathlib

import sskp
from sskp import _sskp

FOLDER = pathlib.Path(sskp.__file__).parent


def names(file):
    """What a stub names: functions and classes with their own names, imports, variables."""
    found = {}
    for node in ast.parse((FOLDER / file).read_text()).body:
        if isinstance(node, ast.ClassDef):
            inner = {item.name if isinstance(item, ast.FunctionDef) else item.target.id for item in node.body}
            found[node.name] = inner - {"__init__"}
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = [argument.arg for argument in node.args.args]
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname: None for alias in node.names if alias.asname}
        elif isinstance(node, ast.AnnAssign):
            found[node.target.id] = None
    return found


def test_all_that_is_public_is_in_the_stub_and_nothing_else():
    tools = {"optuna", "ray"}  # not in __all__: `from sskp import *` must not hide their namesakes
    assert set(names("__init__.pyi")) == set(sskp.__all__) | tools and (FOLDER / "py.typed").exists()
    assert tools <= set(dir(sskp)) and all(getattr(sskp, name).__doc__ for name in tools)
    assert all(getattr(sskp, name) is not None and (name.startswith("__") or getattr(sskp, name).__doc__) for name in sskp.__all__)


def test_the_compiled_part_is_in_its_stub_and_nothing_else():
    there = {name for name in dir(_sskp) if not name.startswith("__")}
    stub = names("_sskp.pyi")
    assert set(stub) == there
    for name, inner in stub.items():
        thing = getattr(_sskp, name)
        if isinstance(inner, set):
            assert inner == {key for key in vars(thing) if not key.startswith("__")}, name
        elif isinstance(inner, list):
            assert inner == list(inspect.signature(thing).parameters), name
