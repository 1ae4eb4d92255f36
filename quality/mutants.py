"""Do the tests notice a wrong formula? `OMP_NUM_THREADS=1 python -m quality.mutants --sample 500`.

Each mutant is the package with one small fault that cosmic-ray puts into `geometry`, `distributions` or
`training.bounds`: another sign, another number, a comparison turned round. The tests of the faulty module run, then
those that stand on it; a mutant is killed if one fails or hangs. A process is forked for each, in which the fault is
put into the module as it is imported, so that nothing on the disk changes.
"""

from __future__ import annotations

import argparse
import importlib.abc
import importlib.util
import os
import random
import re
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from benchmarks.table import markdown

ROOT = Path(__file__).parents[1]
SCOPE = ("geometry", "distributions", "training/bounds.py")
SECONDS = 300  # in which all tests of a module pass several times over
# What people do wrong. Of cosmic-ray's operators those are left out whose mutants fail at once: shifts, bits, `is`.
OPERATORS = re.compile(
    r"core/(ReplaceBinaryOperator_(Add_Sub|Sub_Add|Mul_Div|Div_Mul|Mul_Add|Pow_Mul|FloorDiv_Mul)"
    r"|ReplaceComparisonOperator_(Lt_LtE|LtE_Lt|Gt_GtE|GtE_Gt|Lt_Gt|LtE_GtE|Gt_Lt|GtE_LtE|Eq_NotEq|NotEq_Eq|Is_IsNot|IsNot_Is)"
    r"|ReplaceUnaryOperator_(USub_UAdd|Delete_Not|Delete_Invert)"
    r"|ReplaceTrueWithFalse|ReplaceFalseWithTrue|ReplaceAndWithOr|ReplaceOrWithAnd|ReplaceBreakWithContinue"
    r"|AddNot|NumberReplacer|ZeroIterationForLoop)"
)
# The nearest tests of a module, where they have another name than the module's own.
NEAREST = {
    "autograd": "second_derivatives",
    "ball": "poincare_ball",
    "coordinates": "rim",
    "exponential": "poincare_ball",
    "random": "generators",
    "sampled": "sampled_divergence",
    "sphere": "densities",
    "translation": "poincare_ball",
    "normal": "gradients",
    "riemannian_normal": "gradients",
    "wrapped_normal": "gradients",
}
WIDER = {
    "distributions": ("tests/distributions",),
    "geometry": ("tests/geometry", "tests/distributions/test_kl.py"),
    "training": ("tests/vae/test_vae.py",),
}


class Place(NamedTuple):
    """Where cosmic-ray can put a fault: which operator, at which of the places that it finds in a file."""

    path: Path
    operator: str
    occurrence: int


class Mutant(NamedTuple):
    """One fault: the line that it changes, before and after, and the whole file with it."""

    path: Path
    line: int
    before: str
    after: str
    source: str


class Faulty(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from a mutant's source."""

    def __init__(self, mutant: Mutant) -> None:
        parts = mutant.path.relative_to(ROOT / "src").with_suffix("").parts
        self.name, self.mutant = ".".join(parts).removesuffix(".__init__"), mutant

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        """The module's spec, if it is the one."""
        if name != self.name:
            return None
        package = [str(self.mutant.path.parent)] if self.mutant.path.name == "__init__.py" else None
        return importlib.util.spec_from_file_location(
            name, self.mutant.path, loader=self, submodule_search_locations=package
        )

    def exec_module(self, module: ModuleType) -> None:
        """Run the faulty source in it."""
        exec(compile(self.mutant.source, str(self.mutant.path), "exec"), vars(module))  # noqa: S102


def places(path: Path) -> Iterator[Place]:
    """All places of a file."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    nodes = list(ast_nodes(get_ast(path.read_text(encoding="utf-8"))))
    for name in filter(OPERATORS.fullmatch, operator_names()):
        operator = get_operator(name)()
        for occurrence in range(sum(1 for node in nodes for _ in operator.mutation_positions(node))):
            yield Place(path, name, occurrence)


def mutant_at(place: Place) -> Mutant | None:
    """The mutant, or None if it is not Python: a bare `*` between parameters is taken for a product."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    source = place.path.read_text(encoding="utf-8")
    faulty = mutate_code(source, get_operator(place.operator)(), place.occurrence)
    try:
        compile(faulty, str(place.path), "exec")
    except SyntaxError:
        return None
    pairs = zip(source.splitlines(), faulty.splitlines(), strict=False)
    line, before, after = next((i, a, b) for i, (a, b) in enumerate(pairs, 1) if a != b)
    return Mutant(place.path, line, before.strip(), after.strip(), faulty)


def stages(path: Path) -> list[list[str]]:
    """Groups of tests, each run if the one before noticed nothing: examples and nearest tests, wider ones, compiled."""
    folder = path.parent.name
    nearest = f"tests/{folder}/test_{NEAREST.get(path.stem, path.stem)}.py"
    eager, wider = ["-k", "not compile"], list(WIDER[folder])
    near = [str(path.relative_to(ROOT)), *([nearest] if (ROOT / nearest).exists() else [])]
    return [[*eager, *near], [*eager, *wider], ["-k", "compile", *wider]]


def sound(files: Sequence[Path], scratch: Path) -> None:
    """Stop if a test fails without a fault, which would kill every mutant."""
    for file in files:
        if outcome(Mutant(file, 0, "", "", file.read_text(encoding="utf-8")), scratch) != "survives":
            raise SystemExit(f"The tests of {file.relative_to(ROOT)} do not pass as it is. Mend them first.")


def outcome(mutant: Mutant, scratch: Path) -> str:
    """killed, hangs or survives."""
    for tests in stages(mutant.path):
        child = os.fork()
        if child == 0:
            _in_child(mutant, tests, scratch)
        ended = _wait(child)
        if ended is None:
            return "hangs"
        if os.waitstatus_to_exitcode(ended) not in (0, 5):  # 5: there is no such test
            return "killed"
    return "survives"


def _in_child(mutant: Mutant, tests: list[str], scratch: Path) -> None:
    import pytest

    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (16 << 30, 16 << 30))
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(null, stream)
    sys.dont_write_bytecode = True
    sys.meta_path.insert(0, Faulty(mutant))
    os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", f"--basetemp={scratch}", *tests])))


def _wait(child: int) -> int | None:
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the mutants, or a sample of them, and run the tests on each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, help="mutants to try; all of them unless told")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="part of a file's path")
    options = parser.parse_args(arguments)
    os.chdir(ROOT)
    scope = [ROOT / "src/horoball" / name for name in SCOPE]
    files = [file for path in scope for file in (sorted(path.glob("*.py")) if path.is_dir() else [path])]
    everywhere = [place for file in files if options.only in str(file) for place in places(file)]
    random.Random(options.seed).shuffle(everywhere)  # noqa: S311
    found = [mutant for mutant in map(mutant_at, everywhere[: options.sample]) if mutant is not None]
    import mpmath  # noqa: F401, so that no child has to
    import pytest  # noqa: F401
    import scipy.stats  # noqa: F401
    import torch

    torch.set_num_threads(1)
    counts: dict[str, Counter[str]] = {}
    survivors = []
    scratch = Path(os.environ.get("TMPDIR", "/tmp")) / f"mutants-{os.getpid()}"  # noqa: S108
    sound(list({tuple(stages(file)[1]): file for file in files}.values()), scratch)  # one of each group of tests
    began = time.monotonic()
    with suppress(KeyboardInterrupt):  # what was tried till then is a random sample, too
        for number, mutant in enumerate(found, 1):
            result = outcome(mutant, scratch)
            name = str(mutant.path.relative_to(ROOT / "src/horoball"))
            counts.setdefault(name, Counter())[result] += 1
            if result == "survives":
                survivors.append(f"{name}:{mutant.line}  {mutant.before}  →  {mutant.after}")
            left = (time.monotonic() - began) / number * (len(found) - number) / 60
            print(f"{number}/{len(found)} {result} {name}:{mutant.line}, {left:.0f} min left", file=sys.stderr)
    rows = [[name, *(str(count[kind]) for kind in ("killed", "hangs", "survives"))] for name, count in counts.items()]
    total = sum(counts.values(), Counter())
    rows.append(["all", *(str(total[kind]) for kind in ("killed", "hangs", "survives"))])
    print(markdown(["file", "killed", "hang", "survive"], rows))
    killed = total["killed"] + total["hangs"]
    tried = sum(total.values())
    share = f"{100 * killed / max(1, tried):.1f} %"
    print(f"\n{killed} of {tried} killed, {share}; there are about {len(everywhere)} in all. Survivors:\n")
    print("\n".join(survivors))
    return 0


if __name__ == "__main__":
    sys.exit(main())
