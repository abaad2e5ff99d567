"""The order of modules: each imports only from rows above its own, and packages have no cycles.

There are two packages: the library, and what the paper needs beside it. The library knows of the other in one place.
"""

import ast
import graphlib
import subprocess
import sys
from functools import cache
from pathlib import Path

import natpn
import natpn_paper

ROOTS = {package.__name__: Path(package.__file__).parent for package in (natpn, natpn_paper)}
ROWS = [
    {"choices", "data", "few_rows", "outputs"},
    {"special", "densities", "encoders", "metrics", "parallel"},
    {"evidence"},
    {"families"},
    {"network"},
    {"training"},
    {"tabular"},
    {"model"},
    {"estimators"},
    {"report"},
    {"serve", "export", "mlflow", "ray"},
    {"cli"},
    {"__main__"},
]
PAPER_ROWS = [{"datasets"}, {"baselines"}, {"experiments"}, {"results"}, {"reproduce"}]
ROW = {
    f"{package}.{name}": number
    for package, rows in (("natpn", ROWS), ("natpn_paper", PAPER_ROWS))
    for number, names in enumerate(rows)
    for name in names
}
WAY_IN = ("natpn.cli.commands", "natpn_paper.reproduce")


def module_of(package: str, path: Path) -> str:
    parts = (package, *path.relative_to(ROOTS[package]).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_module(name: str) -> bool:
    package, *parts = name.split(".")
    if package not in ROOTS:
        return False
    path = ROOTS[package].joinpath(*parts)
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def first_two(name: str) -> str:
    return ".".join(name.split(".")[:2])


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports_of(path: Path) -> set[str]:
    """Every module of ours that a file imports, wherever in the file it does so; relative imports are refused."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            modules = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {m if is_module(m) else node.module for m in modules}
    return {name for name in found if name.split(".")[0] in ROOTS}


FILES = {module_of(package, path): path for package, root in ROOTS.items() for path in root.rglob("*.py")}


def test_every_module_has_a_row():
    assert {first_two(name) for name in FILES if "." in name} == set(ROW)


def test_modules_import_only_from_rows_above():
    for name, path in FILES.items():
        if "." not in name:
            continue  # the package's own __init__ offers what is below it
        for imported in imports_of(path):
            assert "." in imported, f"{name} imports the top-level package"
            assert may_import(name, imported), f"{name} imports {imported}"


def may_import(name: str, imported: str) -> bool:
    own, other = first_two(name), first_two(imported)
    if own.split(".")[0] == other.split(".")[0]:
        return other == own or ROW[other] < ROW[own]
    if own.startswith("natpn_paper."):
        return other != "natpn.cli" or own == WAY_IN[1]  # whose words and files are those of a command
    return (name, imported) == WAY_IN


def test_the_library_knows_of_the_paper_in_one_place():
    knowing = {n for n, path in FILES.items() if n.split(".")[0] == "natpn" and "natpn_paper" in path.read_text()}
    assert knowing == {WAY_IN[0]}
    assert WAY_IN[1] in imports_of(FILES[WAY_IN[0]])


def names_of(path: Path) -> set[str]:
    """Every name that a module has for others: what it imports, defines or assigns at its top."""
    found = set()
    for node in parsed(path).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def test_what_a_package_offers_is_taken_from_it():
    """An inner module of another package is imported only for names that the package does not offer itself."""
    offers = {name: names_of(path) for name, path in FILES.items() if path.name == "__init__.py"}
    for name, path in FILES.items():
        for node in ast.walk(parsed(path)):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            if module is None or module.count(".") < 2 or first_two(module) == first_two(name):
                continue
            taken = {alias.name for alias in node.names} & offers.get(first_two(module), set())
            assert not taken, f"{name} imports {sorted(taken)} from {module}, but {first_two(module)} has them"


def test_no_member_imports_its_own_package_and_there_are_no_cycles():
    graph = {}
    for name, path in FILES.items():
        package = name.rsplit(".", 1)[0]
        inside = {i for i in imports_of(path) if i.startswith(package + ".") or i == package}
        if path.name != "__init__.py" and package not in ROOTS:
            assert package not in inside, f"{name} imports {package}, its own package"
        graph[name] = {i for i in imports_of(path) if i in FILES and i not in ROOTS}
    graphlib.TopologicalSorter(graph).prepare()


# What an estimator may load on top of torch and scikit-learn's base classes. Those two are most of the time that its
# import takes; the base classes alone load scipy.stats and, where it is installed, pandas.
BESIDE = {"natpn", "narwhals", "safetensors", "sklearn", "zuko"}
LOADED = """
import sys
import natpn
assert "torch" not in sys.modules
import torch, sklearn.base
before = set(sys.modules)
from natpn import NatPNRegressor
print(*sorted(name for name in set(sys.modules) - before if name.partition(".")[0] not in sys.stdlib_module_names))
"""


def test_importing_natpn_is_light_and_an_estimator_loads_little_beside_torch_and_the_base_classes():
    found = subprocess.run([sys.executable, "-c", LOADED], check=True, capture_output=True, text=True).stdout.split()
    assert {name.partition(".")[0] for name in found} <= BESIDE
    # of scikit-learn no estimators, and of narwhals no backend
    heavy = [name for name in found if name.startswith("sklearn.") and not name.startswith("sklearn.utils.")]
    assert not heavy
    assert not [name for name in found if name.startswith("narwhals._") and name.endswith(".dataframe")]
