from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from horoball.cli import app
from horoball.trees import Tree, taxonomy
from horoball.trees.language_model import namer

TREE = Tree.from_merges([[0, 1], [2, 3], [4, 5]], [1.0, 2.0, 5.0])
TEXTS = ["red apple", "green apple", "fast car", "red car"]


class Endpoint:
    """A server on this machine that speaks the protocol, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.answer: bytes = b""
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.asked.append({"path": self.path, **body})
                endpoint.keys.append(self.headers.get("Authorization"))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(endpoint.answer)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def says(self, name: object) -> None:
        self.answer = json.dumps({"choices": [{"message": {"content": name}}]}).encode()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_groups_are_renamed_by_words_alone(endpoint: Endpoint) -> None:
    endpoint.says('"Fruit"\nbecause of the apples')
    named = taxonomy(TREE, [2], texts=TEXTS, name=namer(endpoint.url, "small", key="secret"))
    assert [group.name for group in named.groups[0]] == ["Fruit", "Fruit (2)"]
    assert endpoint.asked[0]["path"] == "/v1/chat/completions"
    assert (endpoint.asked[0]["model"], endpoint.keys[0]) == ("small", "Bearer secret")
    sent = json.dumps(endpoint.asked)
    assert "apple" in sent  # a word that sets the group apart
    assert "red apple" not in sent  # a row


def test_rows_are_sent_where_they_are_asked_for(endpoint: Endpoint) -> None:
    endpoint.says("Fruit")
    taxonomy(TREE, [2], texts=TEXTS, name=namer(endpoint.url, examples=True))
    assert "A typical row: red apple" in endpoint.asked[0]["messages"][1]["content"]


@pytest.mark.parametrize("answer", [b"", b"no JSON", b"[]", b'{"choices": []}', b'{"choices": [{"message": null}]}'])
def test_what_is_no_answer_leaves_groups_their_own_names(
    endpoint: Endpoint, answer: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.answer = answer
    named = taxonomy(TREE, [2], texts=TEXTS, name=namer(endpoint.url))
    assert named.names == taxonomy(TREE, [2], texts=TEXTS).names
    assert len(endpoint.asked) == 1  # it is not asked again
    assert "groups keep their own" in caplog.text


def test_a_name_is_one_short_line_that_a_terminal_does_not_act_on(endpoint: Endpoint) -> None:
    endpoint.says("\x1b[31m" + "x" * 1000)
    (name, *_) = taxonomy(TREE, [2], texts=TEXTS, name=namer(endpoint.url)).names[0]
    assert name is not None
    assert len(name) <= 80
    assert name.isprintable()
    endpoint.says("  ")
    assert taxonomy(TREE, [2], texts=TEXTS, name=namer(endpoint.url)).names == taxonomy(TREE, [2], texts=TEXTS).names


def test_a_server_that_is_not_there_costs_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    named = taxonomy(TREE, [2], texts=TEXTS, name=namer("http://127.0.0.1:1/v1", timeout=2))
    assert named.names == taxonomy(TREE, [2], texts=TEXTS).names
    assert caplog.text.count("groups keep their own") == 1


def test_the_command_renames_groups_and_support_stays(endpoint: Endpoint, tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    rows = 20 * rng.normal(size=(3, 5)).repeat(20, 0) + rng.normal(size=(60, 5))
    np.save(tmp_path / "rows.npy", rows)
    endpoint.says("Blob")
    told: dict[str, str] = {}
    cases: list[tuple[str, list[str]]] = [("own", []), ("renamed", ["--namer", endpoint.url, "--namer-model", "small"])]
    for name, options in cases:
        out = tmp_path / f"{name}.csv"
        asked = ["tree", str(tmp_path / "rows.npy"), "-o", str(out), "--draws", "20", *options]
        told[name] = CliRunner().invoke(app, asked).output
    assert "Blob: 20 rows" in told["renamed"]
    assert told["own"].count("support 1.00") == told["renamed"].count("support 1.00") > 0
