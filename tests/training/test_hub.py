"""Models go to the Hub and come back, through the Hub's own client and a server that speaks its protocol."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest

import horoball as hb
from horoball.training import hub
from tests.commands import done, refused

# The client's own, of what it passes to httpx.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")
CARD = "README.md"
TOKEN = "hf_a-token-of-tests"  # noqa: S105


class Server(ThreadingHTTPServer):
    """Repositories of models as the Hub has them: commits of files, large ones uploaded before, apart."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.private: dict[str, bool] = {}
        self.commits: dict[str, list[tuple[str, dict[str, bytes]]]] = {}
        self.large: dict[str, bytes] = {}
        self.url = f"http://127.0.0.1:{self.server_port}"

    def at(self, repo: str, revision: str) -> tuple[str, dict[str, bytes]] | None:
        commits = self.commits.get(repo, [])
        return next((one for one in reversed(commits) if revision in ("main", one[0])), None)


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def answer(self, code: int, said: Any = b"", **headers: str) -> None:
        content = said if isinstance(said, bytes) else json.dumps(said).encode()
        self.send_response(code)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def missing(self, what: str) -> None:
        self.answer(404, {"error": "not found"}, X_Error_Code=f"{what}NotFound", X_Error_Message=f"{what} not found")

    def content(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers["Content-Length"]))
        content = b""
        while size := int(self.rfile.readline(), 16):
            content += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return content

    def known(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {TOKEN}"

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        about = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?/?", path)
        found = file or about
        if found is None:
            return self.missing("Entry")
        repo, revision = found[1], (file[2] if file else found[3]) or "main"
        if repo not in self.server.commits or (self.server.private[repo] and not self.known()):
            return self.missing("Repo")
        commit = self.server.at(repo, revision)
        if commit is None:
            return self.missing("Revision")
        sha, files = commit
        if file is not None:
            content = files.get(file[3])
            if content is None:
                return self.missing("Entry")
            mark = f'"{hashlib.sha256(content).hexdigest()}"'
            return self.answer(200, content, X_Repo_Commit=sha, ETag=mark)
        if found[2] == "tree":
            listed = [
                {"type": "file", "path": name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}  # noqa: S324
                for name, content in files.items()
            ]
            return self.answer(200, listed, Content_Type="application/json")
        siblings = [{"rfilename": name} for name in files]
        return self.answer(200, {"id": repo, "sha": sha, "siblings": siblings, "private": self.server.private[repo]})

    do_HEAD = do_GET  # noqa: N815

    def do_PUT(self) -> None:
        self.server.large[self.path.rpartition("/")[2]] = self.content()
        self.answer(200)

    def do_POST(self) -> None:
        content = self.content()
        path = urlsplit(self.path).path
        if not self.known():
            return self.answer(401, {"error": "Invalid credentials"}, X_Error_Message="Invalid credentials")
        if path == "/api/validate-yaml":
            return self.answer(200, {"errors": [], "warnings": []})
        if path == "/api/repos/create":
            asked = json.loads(content)
            repo = f"{asked.get('organization') or 'me'}/{asked['name']}"
            if repo in self.server.commits:
                return self.answer(409, {"error": "exists", "url": f"{self.server.url}/{repo}"})
            self.server.private[repo] = asked.get("visibility") == "private" or bool(asked.get("private"))
            self.server.commits[repo] = [("0" * 40, {".gitattributes": b"*.safetensors filter=lfs\n"})]
            return self.answer(200, {"url": f"{self.server.url}/{repo}"})
        if path.endswith("/objects/batch"):
            asked = json.loads(content)["objects"]
            links = [one | {"actions": {"upload": {"href": f"{self.server.url}/put/{one['oid']}"}}} for one in asked]
            return self.answer(200, {"transfer": "basic", "objects": links})
        found = re.fullmatch(r"/api/models/([^/]+/[^/]+)/(preupload|commit)/main", path)
        assert found is not None, path
        repo = found[1]
        if found[2] == "preupload":
            modes = [
                {"path": one["path"], "uploadMode": "lfs" if one["path"].endswith(".safetensors") else "regular"}
                for one in json.loads(content)["files"]
            ]
            return self.answer(200, {"files": [mode | {"shouldIgnore": False} for mode in modes]})
        files = dict(self.server.commits[repo][-1][1])
        for line in map(json.loads, content.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.server.large[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        sha = hashlib.sha1(content).hexdigest()  # noqa: S324
        self.server.commits[repo].append((sha, files))
        return self.answer(200, {"commitUrl": f"{self.server.url}/{repo}/commit/{sha}", "commitOid": sha})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    pytest.importorskip("huggingface_hub")
    server = Server()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    # The client reads its settings when it is imported. Without xet it uploads by git-lfs, as older ones do.
    settings = {"HF_ENDPOINT": server.url, "HF_TOKEN": TOKEN, "HF_HOME": str(tmp_path / "hf")}
    settings |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    for name in [name for name in sys.modules if name.partition(".")[0] == "huggingface_hub"]:
        monkeypatch.delitem(sys.modules, name)
    yield server
    server.shutdown()
    server.server_close()
    for name in [name for name in sys.modules if name.partition(".")[0] == "huggingface_hub"]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    centers = np.random.default_rng(0).normal(size=(3, 5)) * 8
    return centers.repeat(40, 0) + np.random.default_rng(1).normal(size=(120, 5))


@pytest.fixture(scope="module")
def model(rows: np.ndarray) -> hb.PoincareVAE:
    return hb.PoincareVAE(max_epochs=2, hidden=(8,), random_state=0).fit(rows)


def test_a_model_comes_back_from_the_hub(
    model: hb.PoincareVAE, rows: np.ndarray, server: Server, tmp_path: Path
) -> None:
    tree = model.tree(rows, draws=10)
    model.taxonomy(rows, [3], tree=tree)
    url = model.push_to_hub("lab/animals", tree=tree, figures={"log-likelihood of other rows": -3.25}, places=True)
    sha, files = server.commits["lab/animals"][-1]
    assert url == f"hf://lab/animals@{sha}"
    assert server.private["lab/animals"]
    assert set(files) == {".gitattributes", CARD, "model.safetensors", "places.safetensors"}
    for source in ("hf://lab/animals", url):
        back = hb.load(source)
        assert np.array_equal(back.transform(rows), model.transform(rows))
        assert back.place(rows[:50]).deepest() == model.place(rows[:50]).deepest()
    card = files[CARD].decode()
    assert tree.verdict is not None
    for said in (
        "library_name: horoball",
        '"hf://lab/animals"',
        model.run_.record.data,
        "| rows | 120 |",
        "-3.25",
        f"{model.run_.kept['loss']:.6g}",
        f"- {tree.verdict.answer.capitalize()}",
        "rows of the fit",
    ):
        assert said in card, said


def test_what_the_new_model_has_not_is_taken_from_the_repository(
    model: hb.PoincareVAE, rows: np.ndarray, server: Server
) -> None:
    model.taxonomy(rows, [3], draws=5)
    first = model.push_to_hub("me/m", places=True)
    other = hb.PoincareVAE(max_epochs=1, hidden=(8,), random_state=1).fit(rows)
    other.push_to_hub("me/m")
    assert not hasattr(hb.load("hf://me/m"), "places_")
    assert np.array_equal(hb.load("hf://me/m").transform(rows), other.transform(rows))
    assert np.array_equal(hb.load(first).transform(rows), model.transform(rows))  # the revision of before


def test_a_graph_goes_with_its_model(server: Server) -> None:
    pairs = [("animal", "cat"), ("animal", "dog"), ("cat", "lion"), ("dog", "wolf")]
    model = hb.PoincareGraphVAE(max_epochs=2, random_state=0).fit(pairs)
    url = model.push_to_hub("me/graph", public=True)
    assert not server.private["me/graph"]
    assert np.array_equal(hb.load(url).embedding_, model.embedding_)
    assert "| edges | 4 |" in server.commits["me/graph"][-1][1][CARD].decode()


def test_a_command_pushes_a_run_with_the_verdict_of_its_tree(
    model: hb.PoincareVAE, rows: np.ndarray, server: Server, tmp_path: Path
) -> None:
    model.save(tmp_path / "run")
    np.save(tmp_path / "rows.npy", rows)
    tree = tmp_path / "tree.json"
    done("tree", tmp_path / "run", tmp_path / "rows.npy", "-o", tree, "-o", tmp_path / "t.csv", "--draws", 10)
    told = json.loads(done("push", tmp_path / "run", "me/run", "--tree", tree, "--places").stdout)
    assert told["model"].startswith("hf://me/run@")
    assert told["data"] == model.run_.record.data
    card = server.commits["me/run"][-1][1][CARD].decode()
    assert "None was asked for" not in card
    assert np.array_equal(hb.load(told["model"]).transform(rows), model.transform(rows))


def test_errors_are_one_line_without_the_token(
    model: hb.PoincareVAE, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OSError, match="hf://me/nothing cannot be reached"):
        hb.load("hf://me/nothing")
    model.save(tmp_path / "run")
    (tmp_path / "run" / "places.safetensors").unlink(missing_ok=True)  # of a test before
    assert "places.safetensors is not there" in refused("push", tmp_path / "run", "me/run", "--places")
    monkeypatch.setenv("HF_TOKEN", "hf_another-token")
    said = refused("push", tmp_path / "run", "me/run")
    assert "hf://me/run cannot be reached" in said
    assert "another" not in said
    assert not server.commits


def test_names_of_others_are_text_in_a_card(tmp_path: Path) -> None:
    import pandas as pd

    bad = "a|b\n# <script>[x](http://example.org)"
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=[bad, "b", "c"])
    hb.PoincareVAE(max_epochs=1, hidden=(8,), random_state=0).fit(frame).save(tmp_path)
    text = hub.card(tmp_path, "me/m", notes=["<b>\nnote"])
    assert "<script>" not in text
    assert "\n# <" not in text
    assert "[x](" not in text
    assert "http://" not in text
    assert "a\\|b" in text
    assert "- \\<b\\> note" in text


@pytest.mark.parametrize("name", ["alone", "a/b/c", "../b", "hf://", "a b/c", "me/m@", "https://huggingface.co/a/b"])
def test_other_names_are_refused_before_any_work(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Expected a repository as owner/name"):
        hub.push(tmp_path, name)
