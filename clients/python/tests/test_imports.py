"""The modules of the package import each other without cycles, also inside functions and under TYPE_CHECKING."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src/sessiond_adk"


def imported_modules(path: Path, root: Path) -> set[str]:
    """The modules below `root` that the file imports, also inside functions and under TYPE_CHECKING."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = path.parents[node.level - 1]
        target = base.joinpath(*node.module.split(".")) if node.module else base
        for name in node.names:
            # `from .a import b` imports the module a.b, or the name b of a.
            options = [target / f"{name.name}.py", target.with_suffix(".py"), target / "__init__.py"]
            found.add(next(one for one in options if one.is_file()).relative_to(root).as_posix())
    return found


def import_order(root: Path) -> list[str]:
    """The modules, each after those that it imports.

    Raises:
      CycleError: The imports have a cycle.
    """
    graph = {path.relative_to(root).as_posix(): imported_modules(path, root) for path in root.rglob("*.py")}
    return list(TopologicalSorter(graph).static_order())


def test_imports_have_no_cycle() -> None:
    order = import_order(PACKAGE)
    assert not [path for path in PACKAGE.rglob("*.py") if "__init__.py" in imported_modules(path, PACKAGE)]
    assert order.index("errors.py") < order.index("client.py") < order.index("service.py")


def test_absolute_imports_of_the_package_are_not_used() -> None:
    """`imported_modules` reads relative imports only."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            assert not [name for name in names if name.split(".")[0] == PACKAGE.name], path


@pytest.mark.parametrize(
    "statement",
    [
        "from . import a",
        "from .a import Name",
        "def late():\n    from . import a",
        "if TYPE_CHECKING:\n    from .a import Name",
    ],
)
def test_cycle_is_found(tmp_path: Path, statement: str) -> None:
    (tmp_path / "__init__.py").write_text("from . import a\n")
    (tmp_path / "a.py").write_text("from .b import Name\n")
    (tmp_path / "b.py").write_text(f"{statement}\n")
    with pytest.raises(CycleError):
        import_order(tmp_path)
