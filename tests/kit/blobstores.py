"""A local folder and a real S3 server on loopback, for whatever stores results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import attrs

from actors.ports.blobs import BlobSettings

BUCKET = "regelrecht-results"
ACCESS_KEY = "AKIATESTTESTTEST"
SECRET_KEY = "very-secret-key-of-the-tests"


@attrs.frozen
class FakeS3:
    """``client`` is boto3's, to look at the bucket with other eyes than ours."""

    endpoint: str
    client: Any

    def settings(self, **changes: Any) -> BlobSettings:
        values: dict[str, Any] = {
            "backend": "s3",
            "s3_endpoint": self.endpoint,
            "s3_bucket": BUCKET,
            "s3_access_key": ACCESS_KEY,
            "s3_secret_key": SECRET_KEY,
            **changes,
        }
        return BlobSettings(**values)

    def objects(self) -> list[str]:
        return [item["Key"] for item in self.client.list_objects_v2(Bucket=BUCKET).get("Contents", [])]

    def unfinished(self) -> list[str]:
        """Keys of uploads that were begun and neither completed nor aborted."""
        return [item["Key"] for item in self.client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])]


@contextmanager
def fake_s3() -> Iterator[FakeS3]:
    """moto in a thread, with an empty bucket. Heavy to import: only what needs it does."""
    from moto.server import ThreadedMotoServer

    boto3: Any = import_module("boto3")  # it has no types

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name="us-east-1",
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
        )
        client.create_bucket(Bucket=BUCKET)
        yield FakeS3(endpoint, client)
    finally:
        server.stop()
