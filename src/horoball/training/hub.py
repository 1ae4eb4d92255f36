"""Models on the Hugging Face Hub: a run's weights as safetensors, and a card that is made from the run.

Neither code nor pickles go there or come from there; what comes is checked as a folder of this machine is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from horoball.plugins import required
from horoball.storage.checkpoint import load_header
from horoball.storage.stores import local_copy, located, store_errors
from horoball.training.config import stored_record
from horoball.training.state import FINAL, GRAPH, LAST, PLACES, stored_history

__all__ = ["load", "push"]

_URL = re.compile(r"(?:hf://)?(?P<repo>[\w-][\w.-]*/[\w-][\w.-]*)(?:@(?P<revision>[\w][\w./-]*))?")
_HOMES = {
    "table": ("horoball.vae.estimator", "PoincareVAE"),
    "graph": ("horoball.graphs.estimator", "PoincareGraphVAE"),
}
_FILES = (FINAL, GRAPH, PLACES)
_SHOWN = 20  # columns that a card names
_SETTINGS = ("d", "c", "posterior", "likelihood", "edges", "encoder", "decoder", "prior", "manifold", "hidden")


def push(
    folder: str | Path,
    repo: str,
    *,
    notes: Sequence[str] = (),
    figures: Mapping[str, float] | None = None,
    places: bool = False,
    public: bool = False,
) -> str:
    """Upload the run in a folder with a card, as one commit; a repository that is not there is made.

    The token is the one of `hf auth login`, or of HF_TOKEN.

    Args:
        folder: The folder that a fit wrote, or its URL.
        repo: Name of the repository, "owner/name".
        notes: Sentences for the card: the verdict of a tree, or the words of a report.
        figures: Other figures for the card, by name.
        places: Whether the groups of `horoball tree` go with it. They hold up to 20,000 rows of the fit.
        public: Whether a new repository can be read by everybody. One that is there stays as it is.

    Returns:
        The model's URL with its revision, which `load` takes.

    Example:
        >>> push("run", "not a name")
        Traceback (most recent call last):
        ...
        ValueError: Expected a repository as owner/name, got 'not a name'.
    """
    name, _ = _parsed(repo)
    folder = located(folder)
    wanted = [FINAL, *([GRAPH] if (folder / GRAPH).exists() else []), *([PLACES] if places else [])]
    for file in wanted:
        if not (folder / file).exists():
            what = "finished model" if file == FINAL else "groups to place rows in"
            raise FileNotFoundError(f"{folder} holds no {what}: {file} is not there.")
    hub = required("huggingface_hub")
    text = card(folder, name, notes=notes, figures=figures, places=places)
    with ExitStack() as stack, store_errors(f"hf://{name}"):
        api = hub.HfApi()
        api.create_repo(name, private=not public, exist_ok=True)
        there = set(api.list_repo_files(name))
        changes: list[Any] = [hub.CommitOperationAdd("README.md", text.encode())]
        for file in wanted:
            changes.append(hub.CommitOperationAdd(file, str(stack.enter_context(local_copy(folder / file)))))
        # Of a model that was there before: groups of another run are refused when they are read.
        changes += [hub.CommitOperationDelete(file) for file in _FILES if file in there and file not in wanted]
        made = api.create_commit(name, changes, commit_message=f"Model of run {_state(folder)['run'][:8]}")
        return f"hf://{name}@{made.oid}"


def load(source: str | Path) -> Any:
    """A fitted model, of whichever kind, from the Hub or from a folder.

    Args:
        source: "hf://owner/name", or "hf://owner/name@revision"; or a folder that a fit wrote, or its URL.

    Returns:
        A `PoincareVAE` or a `PoincareGraphVAE`.

    Example:
        >>> import tempfile, numpy as np, horoball as hb
        >>> folder = tempfile.mkdtemp()
        >>> hb.PoincareVAE(max_epochs=1, hidden=(8,)).fit(np.random.default_rng(0).normal(size=(50, 4))).save(folder)
        >>> hb.load(folder).transform(np.zeros((1, 4))).shape
        (1, 2)
    """
    if not str(source).startswith("hf:"):
        folder = located(source)
        record = stored_record(_path(folder), load_header(_path(folder)))
        module, name = _HOMES[record.KIND if record is not None else "table"]
        return getattr(import_module(module), name).load(folder)
    repo, revision = _parsed(str(source))
    hub = required("huggingface_hub")
    with TemporaryDirectory(prefix="horoball-") as made:
        copy = Path(made) / "model"  # the client takes a folder that is there for what it could not fetch
        with store_errors(source):
            hub.snapshot_download(repo, revision=revision, local_dir=copy, allow_patterns=list(_FILES))
        return load(copy)


class OnHub:
    """A model that can be put on the Hub."""

    def save(self, folder: str | Path) -> None:
        """Write the model to a folder."""
        raise NotImplementedError

    def push_to_hub(
        self,
        repo: str,
        *,
        tree: Any = None,
        figures: Mapping[str, float] | None = None,
        places: bool = False,
        public: bool = False,
    ) -> str:
        """Upload the model to the Hugging Face Hub, with a card of its data, figures, verdict and limits.

        It needs `pip install "horoball[hub]"`, and a token as `hf auth login` keeps it.

        Args:
            repo: Name of the repository, "owner/name"; it is made if it is not there.
            tree: A tree of the rows, whose verdict goes into the card.
            figures: Other figures for the card, by name, such as those of rows the model has not seen.
            places: Whether groups to place rows in go with it. They hold up to 20,000 rows of the fit.
            public: Whether a new repository can be read by everybody.

        Returns:
            The model's URL, for `horoball.load`.
        """
        verdict = getattr(tree, "verdict", None)
        notes = [] if verdict is None else [verdict.sentence]
        with TemporaryDirectory(prefix="horoball-") as folder:
            self.save(folder)
            return push(folder, repo, notes=notes, figures=figures, places=places, public=public)


def card(
    folder: Path,
    repo: str,
    *,
    notes: Sequence[str] = (),
    figures: Mapping[str, float] | None = None,
    places: bool = False,
) -> str:
    """The card of a run, as Markdown; see `push`."""
    path = _path(folder)
    header = load_header(path)
    record = stored_record(path, header)
    if record is None:
        raise ValueError(f"{path} holds weights without a description of their model. Point to a run's own folder.")
    said, history = record.as_json(), stored_history(_state(folder)["history"])
    kept = min(history, key=lambda line: line.get("validation", -line["epoch"]), default={})
    graph = record.KIND == "graph"
    columns = said.get("columns", [])
    data: dict[str, Any] = {"nodes": said["model"]["nodes"], "edges": said["edges"]} if graph else {}
    data |= {} if graph else {"rows": f"{said['rows']:,}", "columns": f"{len(columns):,}: {_some(columns)}"}
    data |= {"fingerprint": said["digest" if graph else "data"]}
    data |= {name: said[name] for name in ("label", "ids") if said.get(name)}
    model = {name: said["model"][name] for name in _SETTINGS if said["model"].get(name) is not None}
    model |= {"c": f"learned, from {model['c']}"} if said["model"].get("learn_c") else {}
    model |= {"seed": said["training"]["seed"], "horoball": said["version"]}
    numbers = {f"{name}, epoch {kept['epoch']:g}": kept[name] for name in ("loss", "kl", "validation") if name in kept}
    numbers |= dict(figures or {})
    unit = "edge or node pair" if graph else "row, as the model sees it scaled"
    held = "its edges and the names of its nodes" if graph else "the names of columns, labels and categories"
    rows = "; rows of the fit, as the model sees them, in the groups to place others in" if places else ""
    limits = [
        f"The loss is of the {'edges' if graph else 'rows'} it was fitted to, and the validation of those held out.",
        "A map alone is no evidence of a hierarchy: the verdict is, and it may be that none was asked for.",
        *([] if notes else ["It was not compared with its Euclidean twin (c = 0) here: `horoball report` does that."]),
        "It knows rows like those of the fit. `placed.drift` tells how many new rows do not fit.",
        f"The files hold, beside weights, {held}{rows}.",
    ]
    use = "model.embedding_" if graph else "model.transform(rows)"
    parts = [
        "---\nlibrary_name: horoball\ntags: [horoball, hyperbolic, poincare-ball, variational-autoencoder]\n---",
        f"# {repo.partition('/')[2]}",
        f"A variational auto-encoder on the Poincaré ball, fitted to a {record.KIND}.",
        f'```python\nimport horoball as hb\n\nmodel = hb.load("hf://{repo}")\nz = {use}\n```',
        _listed("Data", data),
        _listed("Model", model),
        f"{_listed('Figures', numbers)}\n\nIn nats per {unit}, where not said otherwise.",
        "## Verdict\n\n" + ("\n".join(f"- {_plain(note)}" for note in notes) or "None was asked for."),
        "## Limits\n\n" + "\n".join(f"- {limit}" for limit in limits),
    ]
    return "\n\n".join(parts) + "\n"


def _parsed(text: str) -> tuple[str, str | None]:
    found = _URL.fullmatch(text)
    if found is None:
        raise ValueError(f"Expected a repository as owner/name, got {text[:80]!r}.")
    return found["repo"], found["revision"]


def _path(folder: Path) -> Path:
    return folder / FINAL if (folder / FINAL).exists() else folder / LAST


def _state(folder: Path) -> dict[str, Any]:
    path = _path(folder)
    header = load_header(path)
    state: dict[str, Any] = header["state"] if path.name == LAST else header
    return {"run": "", **state}


def _listed(title: str, values: Mapping[str, Any]) -> str:
    lines = "\n".join(f"| {_plain(name)} | {_plain(_shown(value))} |" for name, value in values.items())
    return f"## {title}\n\n| | |\n|---|---|\n{lines}"


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _some(names: Sequence[str]) -> str:
    return ", ".join(name[:40] for name in names[:_SHOWN]) + (" …" if len(names) > _SHOWN else "")


def _plain(text: object) -> str:
    """Text from others as one line that Markdown and HTML make nothing of."""
    line = "".join(char if char.isprintable() else " " for char in str(text))
    return re.sub(r"([\\`*_{}\[\]<>#|!&~:@])", r"\\\1", line)
