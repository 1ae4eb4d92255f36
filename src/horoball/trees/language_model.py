"""Names of groups from a language model: any endpoint that speaks OpenAI's chat protocol, such as a local server.

It only renames. Groups, support and what sets them apart are found before and stay as they are; a name that does not
come, or is none, leaves the group's own. Rows leave the machine if they are asked for, and words alone otherwise.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from horoball.trees.taxonomy import NameGroup

_ANSWER = 1 << 16  # bytes of an answer that are read: a name has a few
_LONGEST = 80  # characters of a name
_WORDS, _EXAMPLES, _EXAMPLE = 10, 5, 300  # that a question has, and characters of an example
_TOKENS = 30  # of an answer
_QUESTION = "Give a name of one to four words to a group of rows. Answer with the name alone."
_log = logging.getLogger("horoball")


def namer(
    url: str, model: str = "default", *, key: str | None = None, examples: bool = False, timeout: float = 30.0
) -> NameGroup:
    """A function that asks an endpoint for the name of a group, for `taxonomy(..., name=)`.

    Args:
        url: Address of the protocol's first version, such as http://localhost:11434/v1.
        model: Name of the model there.
        key: Sent as a bearer token, if given.
        examples: Whether texts of typical rows are sent too. Without it only the words that set the group apart are.
        timeout: Seconds to wait for a name.

    Example:
        >>> namer("ftp://server/v1")
        Traceback (most recent call last):
        ...
        ValueError: Expected the address of an endpoint, such as http://localhost:11434/v1, got 'ftp://server/v1'.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"Expected the address of an endpoint, such as http://localhost:11434/v1, got {url[:80]!r}.")
    headers = {"Content-Type": "application/json"} | ({} if key is None else {"Authorization": f"Bearer {key}"})
    failed = False

    def name(texts: list[str], words: list[str]) -> str:
        nonlocal failed
        own = ", ".join(words[:3])
        if failed:  # an endpoint that is not there is waited for once
            return own
        body = {"model": model, "max_tokens": _TOKENS, "temperature": 0}
        asked = json.dumps(body | {"messages": _messages(texts if examples else (), words)}).encode()
        request = Request(f"{url.rstrip('/')}/chat/completions", asked, headers)  # noqa: S310  http or https, see above
        try:
            with urlopen(request, timeout=timeout) as answer:  # noqa: S310
                said = json.loads(answer.read(_ANSWER))["choices"][0]["message"]["content"]
        except (URLError, OSError, ValueError, LookupError, TypeError) as error:
            failed = True
            _log.warning("No names from %s (%s): groups keep their own.", url, str(error)[:200])
            return own
        return _cleaned(said) or own

    return name


def _messages(texts: Sequence[str], words: Sequence[str]) -> list[dict[str, str]]:
    told = [f"What sets it apart: {'; '.join(words[:_WORDS])}."] if words else []
    told += [f"A typical row: {text[:_EXAMPLE]}" for text in texts[:_EXAMPLES]]
    return [{"role": "system", "content": _QUESTION}, {"role": "user", "content": "\n".join(told)}]


def _cleaned(said: object) -> str:
    """One line of an answer, without quotes and what a terminal acts on."""
    line = str(said).strip().splitlines()[0] if str(said).strip() else ""
    return "".join(letter for letter in line if letter.isprintable()).strip(" \"'`*.")[:_LONGEST]
