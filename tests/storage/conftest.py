"""A server that speaks S3's protocol."""

from __future__ import annotations

from collections.abc import Iterator

import fsspec
import pytest


@pytest.fixture(scope="module")
def s3_server() -> Iterator[None]:
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "a-key",
            "AWS_SECRET_ACCESS_KEY": "a-secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        }.items():
            patch.setenv(name, value)
        fsspec.get_filesystem_class("s3").clear_instance_cache()  # which know the server of another module
        fsspec.filesystem("s3").makedirs("bucket", exist_ok=True)
        yield
    server.stop()
