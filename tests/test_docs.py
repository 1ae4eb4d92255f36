"""The documentation says what is true: its tags, its citations, its examples and the examples of every docstring."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
import warnings
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import torch

import horoball
from tests.goldens.names import documented, own_names

pytestmark = pytest.mark.whole_maps  # what pages show is what users get
ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/tutorials").glob("*.md"))]
SOURCES = sorted((ROOT / "src").rglob("*.py"))

# Methods that torch calls or documents: what they do is said by the example of their class.
CORE = {"distributions", "geometry", "nn"}
WITHOUT_EXAMPLE = {"expand", "extra_repr", "forward"}


def modules() -> list[ModuleType]:
    found = pkgutil.walk_packages(horoball.__path__, "horoball.")
    return [horoball, *(importlib.import_module(module.name) for module in found)]


# --------------------------------------------------------------------------------------------------------------------
# Equations
# --------------------------------------------------------------------------------------------------------------------


class Equation(NamedTuple):
    tag: str
    objects: list[str]  # dotted paths, from [text][path]
    tests: list[str]  # file::function


def equations() -> list[Equation]:
    rows = []
    for line in (ROOT / "docs" / "equations.md").read_text(encoding="utf-8").splitlines():
        tag = re.match(r"\| *\[\]\(\)\{#(eq:\w+)\}", line)
        if tag:
            cells = line.strip("| ").split(" | ")
            assert len(cells) == 5, f"{tag[1]}: expected 5 cells, got {len(cells)}. Write norms as ‖z‖, without pipes."
            rows.append(Equation(tag[1], re.findall(r"\]\[([\w.]+)\]", cells[3]), re.findall(r"`([^`]+)`", cells[4])))
    return rows


def cited(kind: str, path: Path) -> set[str]:
    return set(re.findall(rf"\[({kind}:\w+)\]", path.read_text(encoding="utf-8")))


def resolve(path: str) -> tuple[Any, ModuleType]:
    """The object at a dotted path, and the module that it is in."""
    names = path.split(".")
    for k in range(len(names), 0, -1):
        try:
            module = importlib.import_module(".".join(names[:k]))
        except ModuleNotFoundError:
            continue
        value: Any = module
        for name in names[k:]:
            value = getattr(value, name)
        return value, module
    raise ModuleNotFoundError(path)


def test_every_tag_in_the_code_is_in_the_table_of_equations() -> None:
    in_table = {equation.tag for equation in equations()}
    for path in SOURCES:
        missing = cited("eq", path) - in_table
        assert not missing, f"{path.relative_to(ROOT)} has {sorted(missing)}. Add a row to docs/equations.md."


def test_no_equation_is_listed_twice() -> None:
    tags = [equation.tag for equation in equations()]
    assert tags
    assert len(tags) == len(set(tags))


@pytest.mark.parametrize("equation", equations(), ids=lambda equation: equation.tag)
def test_the_code_of_an_equation_carries_its_tag(equation: Equation) -> None:
    assert equation.objects
    for path in equation.objects:
        value, module = resolve(path)
        said = f"{inspect.getdoc(value)}\n{module.__doc__}"
        assert f"[{equation.tag}]" in said, f"The docstring of {path} does not have [{equation.tag}]."


@pytest.mark.parametrize("equation", equations(), ids=lambda equation: equation.tag)
def test_the_tests_of_an_equation_exist(equation: Equation) -> None:
    assert equation.tests
    for test in equation.tests:
        file, name = test.split("::")
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"There is no {test}."


# --------------------------------------------------------------------------------------------------------------------
# Symbols
# --------------------------------------------------------------------------------------------------------------------


class Symbol(NamedTuple):
    model: str  # dotted path of what the section's defaults are of
    symbol: str
    objects: list[str]
    default: str


def symbols() -> list[Symbol]:
    """Rows of docs/symbols.md; a section says whose defaults it has."""
    rows = []
    page = (ROOT / "docs" / "symbols.md").read_text(encoding="utf-8")
    for section in page.split("\n## ")[1:]:
        model = re.search(r"A default is that of\s+\[`[\w.]+`\]\[([\w.]+)\]", section)
        assert model, f"A section does not say whose defaults it has: {section.splitlines()[0]}"
        for line in re.findall(r"^\| (?!symbol).+ \|$", section, re.MULTILINE):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            assert len(cells) == 4, f"Expected 4 cells: {line}"
            rows.append(Symbol(model[1], cells[0], re.findall(r"\]\[([\w.]+)\]", cells[2]), cells[3]))
    return rows


@pytest.mark.parametrize("row", symbols(), ids=lambda row: f"{row.model.rpartition('.')[2]}-{row.symbol}")
def test_a_symbol_is_in_the_code_with_its_default(row: Symbol) -> None:
    for path in row.objects:
        resolve(path)
    if row.default:
        name, value = row.default.strip("`").split("=")
        assert inspect.signature(resolve(row.model)[0]).parameters[name].default == ast.literal_eval(value)


def test_a_field_that_a_symbol_names_exists() -> None:
    page = (ROOT / "docs" / "symbols.md").read_text(encoding="utf-8")
    named = re.findall(r"\]\[([\w.]+)\]`\.(\w+)`", page) + [
        (path, name) for name, path in re.findall(r"`(\w+)` of \[`\w+`\]\[([\w.]+)\]", page)
    ]
    assert named
    for path, name in named:
        source = inspect.getsource(resolve(path)[0])
        assert re.search(rf"\b{name}\b", source), f"{path} has no {name}."


# --------------------------------------------------------------------------------------------------------------------
# Errata
# --------------------------------------------------------------------------------------------------------------------


def test_errata_are_numbered_from_one_without_gaps() -> None:
    text = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
    numbers = [
        (int(shown), int(anchor)) for shown, anchor in re.findall(r"\*\*(\d+)\.\*\* \[\]\(\)\{#errata:(\d+)\}", text)
    ]
    assert numbers == [(n, n) for n in range(1, len(numbers) + 1)]
    assert len(numbers) == text.count("{#errata:")


def test_every_cited_erratum_exists() -> None:
    listed = set(re.findall(r"\{#(errata:\d+)\}", (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")))
    for path in (*SOURCES, *PAGES):
        missing = cited("errata", path) - listed - {"errata:N"}  # the way to cite, not a citation
        assert not missing, f"{path.relative_to(ROOT)} cites {sorted(missing)}, which docs/errata.md does not have."


# --------------------------------------------------------------------------------------------------------------------
# Examples
# --------------------------------------------------------------------------------------------------------------------


def test_what_pages_include_is_there() -> None:
    for page in PAGES:
        for line in page.read_text(encoding="utf-8").splitlines():
            if line.startswith("--8"):
                name = re.fullmatch(r'--8<-- "(.+)"', line)
                assert name, f"{page.name}: {line}"
                assert (ROOT / name[1]).exists(), f"{page.name} includes {name[1]}"


class Block(NamedTuple):
    line: int  # of its first line, from 0
    code: str


def blocks(text: str) -> Iterator[Block]:
    """Python in fences, with or without prompts; other fences are opened and closed here too."""
    for fence in re.finditer(r"^```( \{ \.python \}|\w*)[^\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if fence[1] in ("python", "pycon"):
            yield Block(text.count("\n", 0, fence.start(2)), fence[2])
        elif fence[1] == " { .python }":  # a file that the page shows; its text is no Python for ruff
            path = ROOT / fence[2].removeprefix('--8<-- "').removesuffix('"\n')
            yield Block(text.count("\n", 0, fence.start(2)), path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_run_in_their_order(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # examples write files
    namespace: dict[str, Any] = {"__name__": page.stem}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Training ended at its last epoch")  # examples take few, to be quick
        warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated")  # of geoopt, at import
        warnings.filterwarnings("ignore", "XDG_RUNTIME_DIR")  # of pgserver, in a container without a session
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.code.startswith(">>>"):
                examples = doctest.DocTestParser().get_doctest(block.code, {}, page.name, str(page), block.line)
                examples.globs = namespace
                report: list[str] = []
                runner.run(examples, out=report.append, clear_globs=False)
                assert not report, "".join(report)
            else:
                code = compile("\n" * block.line + block.code, str(page), "exec")
                exec(code, namespace)  # noqa: S102


def public() -> Iterator[tuple[str, Any]]:
    """Functions, classes and methods that the reference lists."""
    for path in documented():
        value = resolve(path)[0]
        if not (inspect.isfunction(value) or inspect.isclass(value)):
            continue
        if inspect.isabstract(value) or getattr(value, "_is_protocol", False):
            continue  # nothing to make an example of
        if inspect.isclass(value) and (issubclass(value, tuple | BaseException) or is_dataclass(value)):
            continue  # a record or an error: the function that gives it shows it
        yield path, value
        # Above the mathematical core a class is used as a whole: the example of the class shows its methods.
        if path.split(".")[1] not in CORE or not inspect.isclass(value):
            continue
        for key, member in vars(value).items():
            is_method = inspect.isfunction(member) or isinstance(member, classmethod | staticmethod)
            if is_method and not key.startswith("_") and key not in WITHOUT_EXAMPLE:
                yield f"{path}.{key}", member


def has_example(path: str, value: Any) -> bool:
    """Whether the docstring has one, or that of the method of ours which this one overrides."""
    name = path.rpartition(".")[2]
    owner = resolve(path.rpartition(".")[0])[0]
    bases = [base for base in getattr(owner, "__mro__", ())[1:] if base.__module__.startswith("horoball.")]
    return any(">>>" in (said.__doc__ or "") for said in (value, *(vars(base).get(name) for base in bases)))


def test_modules_say_what_they_offer_once() -> None:
    """A package lists it; of a module it is what has no underscore, unless it lists something else."""
    packages = [
        module.__name__ for module in modules() if hasattr(module, "__path__") and not hasattr(module, "__all__")
    ]
    assert not packages, f"{packages} have no __all__."
    twice = [
        module.__name__
        for module in modules()
        if not hasattr(module, "__path__") and set(getattr(module, "__all__", ())) == (own_names(module) or None)
    ]
    assert not twice, f"{twice} have an __all__ of just their names without an underscore. Leave it out."


def test_everything_public_has_an_example() -> None:
    without = [path for path, value in public() if not has_example(path, value)]
    assert not without, "Docstrings without an Example: " + ", ".join(without)
