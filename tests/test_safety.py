"""What SECURITY.md promises of the package's own code: read in the source, and watched while it runs."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))

# Modules that run what they read, or that reach out.
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "yaml", "socket"} | {
    "urllib.request", "http.client", "requests", "ftplib", "smtplib", "telnetlib", "xmlrpc"
}  # fmt: skip
FORBIDDEN_CALLS = {
    "eval", "exec", "compile", "__import__", "os.system", "os.popen", "torch.load", "torch.hub.load", "torch.jit.load",
    "torch.export.load", "yaml.load", "pickle.loads", "pd.read_pickle", "pandas.read_pickle",
}  # fmt: skip


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def faults(tree: ast.AST) -> Iterator[str]:
    """What a source has that it must not have."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            # A pair of sockets is connected within the process, and wakes a thread when a signal comes.
            within = node.module == "socket" and [alias.name for alias in node.names] == ["socketpair"]
            names = [] if within else [node.module]
        elif isinstance(node, ast.Call):
            called = dotted(node.func)
            if called in FORBIDDEN_CALLS:
                yield f"line {node.lineno}: {called}()"
            keywords = {keyword.arg: keyword.value for keyword in node.keywords}
            shell = keywords.get("shell")
            if shell is not None and not (isinstance(shell, ast.Constant) and shell.value is False):
                yield f"line {node.lineno}: shell="
            if called.endswith(("np.load", "numpy.load")):
                allowed = keywords.get("allow_pickle")
                if not (isinstance(allowed, ast.Constant) and allowed.value is False):
                    yield f"line {node.lineno}: {called} without allow_pickle=False"
        for name in names:
            if any(name == wrong or name.startswith(f"{wrong}.") for wrong in FORBIDDEN_MODULES):
                yield f"line {node.lineno}: import {name}"  # type: ignore[attr-defined]


def test_nothing_runs_what_it_reads_or_reaches_out() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES}
    assert trees
    # A language model is asked where a user names its address, and nowhere else.
    asks = ROOT / "src/horoball/trees/language_model.py"
    assert list(faults(trees.pop(asks))) == ["line 14: import urllib.request"]
    found = [f"{path.relative_to(ROOT)}, {fault}" for path, tree in trees.items() for fault in faults(tree)]
    assert not found


@pytest.mark.parametrize(
    "source",
    ["import pickle", "from yaml import load", "import os; os.system('x')", "eval('1')", "run('x', shell=True)",
     "np.load(path)", "np.load(path, allow_pickle=True)", "torch.load(path)", "import urllib.request"],
)  # fmt: skip
def test_what_must_not_be_there_would_be_seen(source: str) -> None:
    assert list(faults(ast.parse(source)))


# Python tells hooks of what it is about to do. Whatever asks for a name to resolve, connects, starts a program or looks
# up a class for pickle stops the program at once.
WATCH = """
import os, sys
def watch(event, arguments):
    if event in ("pickle.find_class", "socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "urllib.Request",
                 "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "marshal.loads"):
        if event == "marshal.loads" and "importlib" in sys._getframe(1).f_code.co_filename:
            return  # a compiled module of Python itself
        print("did", event, str(arguments)[:300], file=sys.stderr, flush=True)
        os._exit(9)
    if event == "open" and isinstance(arguments[0], str) and set(arguments[1] or "") & set("wax+"):
        path = os.path.realpath(arguments[0])
        if not path.startswith((ALLOWED, "/dev/", "/proc/")) and "__pycache__" not in path:
            print("wrote", path, file=sys.stderr, flush=True)
            os._exit(9)
"""
IMPORTS = """
import importlib, pkgutil
import horoball
for module in pkgutil.walk_packages(horoball.__path__, "horoball."):
    importlib.import_module(module.name)
print("done")
"""
USES = """
import torch
import horoball as hb
from pathlib import Path
x = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
model = hb.PoincareVAE(max_epochs=1, hidden=(8,)).fit(x.numpy())
model.save("run")
loaded = hb.PoincareVAE.load("run")
z = loaded.transform(x.numpy())
hb.view(z, labels=["<b>"] * len(z)).save("map.html")
hb.neighbors.Index(hb.PoincareBall(1.0)).add(torch.as_tensor(z)).save("index")
hb.neighbors.Index.load("index")
Path("rows.csv").write_text("a,b\\n" + "1,2\\n3,4\\n" * 20)
hb.tables.read("rows.csv")
print("done")
"""


@pytest.mark.parametrize("program", [IMPORTS, USES], ids=["imports", "uses"])
def test_a_program_starts_nothing_connects_to_nothing_and_unpickles_nothing(program: str, tmp_path: Path) -> None:
    watch = WATCH.replace("ALLOWED", repr(str(tmp_path.resolve())))
    source = f"{watch}\nsys.addaudithook(watch)\n{program}"
    done = subprocess.run([sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.strip().endswith("done"), done.stderr
    assert done.returncode == 0, done.stderr
