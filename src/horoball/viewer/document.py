"""The page as one file: its sources joined, its data escaped, its policy strict.

Note [Escaping]: data never become markup. Numbers are base64, names are JSON in a block that no browser runs, with the
characters that could end the block written as escapes; the script puts them on the page as text only. The policy lets
the one script run by its hash and forbids every request, so a name that did become markup still could do nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["SCRIPTS", "TREE_SCRIPTS", "document", "frame_policy", "safe_json"]

# In the order of use: they share one scope.
SCRIPTS = (
    "mobius.js",
    "data.js",
    "palette.js",
    "shaders.js",
    "renderer.js",
    "nearest.js",
    "scene.js",
    "coloring.js",
    "ground.js",
    "frames.js",
    "names.js",
    "density.js",
    "overlay.js",
    "details.js",
    "legend.js",
    "search.js",
    "selection.js",
    "picture.js",
    "link.js",
    "input.js",
    "main.js",
)
# Of a page with a tree, before the last one.
TREE_SCRIPTS = ("clades.js", "branches.js", "dendrogram.js", "skeleton.js", "browsing.js", "treeinput.js")


def document(meta: dict[str, Any], data: bytes) -> str:
    r"""The whole page.

    Args:
        meta: What the page is told, as `Payload.meta`.
        data: The bytes of all arrays.

    Example:
        >>> page = document({"title": "</script>"}, b"")
        >>> page.count("</script>"), r"\u003c/script\u003e" in page
        (3, True)
    """
    style, script = _source("page.css"), _script("tree" in meta)
    parts = {
        "policy": (
            f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data: blob:; "
            "connect-src 'none'; base-uri 'none'; form-action 'none'"
        ),
        "style": style,
        "meta": safe_json(meta),
        "arrays": base64.b64encode(data).decode("ascii"),
        "script": script,
    }
    # In one pass: a name that reads {{script}} stays a name.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _source("page.html"))


def frame_policy() -> str:
    """What a page that shows a map in a frame must allow in its own policy, which holds in the frame too.

    Example:
        >>> frame_policy().startswith("script-src 'sha256-")
        True
    """
    return f"script-src '{_hash(_script(tree=False))}'; img-src data: blob:"


def safe_json(value: Any) -> str:
    r"""JSON that cannot end the block it stands in.

    Example:
        >>> safe_json("<!-- & -->")
        '"\\u003c!-- \\u0026 --\\u003e"'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Half a surrogate pair, as a file name may hold, has no UTF-8: it is written as an escape too.
    return re.sub("[<>&\u2028\u2029\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text)


@cache
def _source(name: str) -> str:
    return files("horoball.viewer").joinpath("page", name).read_text(encoding="utf-8")


@cache
def _script(tree: bool) -> str:
    names = (*SCRIPTS[:-1], *TREE_SCRIPTS, SCRIPTS[-1]) if tree else SCRIPTS
    # Without comments, empty lines and indentation, a twentieth of the page: no string of the sources depends on them.
    body = re.sub(r"^ *(//.*)?\n|^ +", "", "\n".join(_source(name) for name in names), flags=re.MULTILINE)
    return f'"use strict";\n(() => {{\n{body}}})();\n'


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
