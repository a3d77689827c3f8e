"""Makes the bucket "logs" in an object store on this machine: s3|az|gs URL.

For az the account and its key are in AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY.
"""

import base64
import hashlib
import hmac
import json
import os
import sys
import urllib.parse
import urllib.request
from email.utils import formatdate

TIMEOUT = 30


def main(kind, url):
    request = {"s3": s3, "az": azure, "gs": gcs}[kind](url)
    with urllib.request.urlopen(request, timeout=TIMEOUT):
        pass


def s3(url):
    return urllib.request.Request(url, method="PUT")


def gcs(url):
    return urllib.request.Request(url, json.dumps({"name": "logs"}).encode(), {"Content-Type": "application/json"})


def azure(url):
    """A container, in a request signed with the shared key of the account."""
    account, key = os.environ["AZURE_STORAGE_ACCOUNT_NAME"], os.environ["AZURE_STORAGE_ACCOUNT_KEY"]
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    lines = ["PUT", *[""] * 11, *(f"{name}:{value}" for name, value in headers.items())]
    lines += [f"/{account}{urllib.parse.urlsplit(url).path}", "restype:container"]
    digest = hmac.new(base64.b64decode(key), "\n".join(lines).encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {account}:{base64.b64encode(digest).decode()}"
    headers["Content-Length"] = "0"
    return urllib.request.Request(f"{url}?restype=container", method="PUT", headers=headers)


if __name__ == "__main__":
    main(*sys.argv[1:])
