"""The XML interface of Google Cloud Storage, as far as clients of object stores use it, in front of an emulator that
has uploads with conditions in the JSON interface only: UPSTREAM HOST.

Translates requests and keeps no object: whether a condition holds is up to the emulator, which checks it in one step
with the write. Only the parts of an upload in parts are kept here until they are put together. HOST is the name
under which the emulator takes requests of the XML interface. Prints its own URL.
"""

import http.client
import itertools
import json
import re
import sys
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PASSED_ON = {"range", "content-type"}
NOT_PASSED_BACK = {"connection", "date", "transfer-encoding", "content-length"}


class Uploads:
    """The parts of uploads that are under way."""

    def __init__(self):
        self.lock, self.numbers, self.parts = threading.Lock(), itertools.count(1), {}

    def begin(self):
        upload = f"upload-{next(self.numbers)}"
        with self.lock:
            self.parts[upload] = {}
        return upload

    def put(self, upload, number, part):
        with self.lock:
            self.parts[upload][number] = part

    def take(self, upload):
        with self.lock:
            return self.parts.pop(upload, None)


class Translator(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    uploads = Uploads()

    def do_PUT(self):
        body, query = self.body(), self.query()
        if "uploadId" in query:
            self.uploads.put(query["uploadId"], int(query["partNumber"]), body)
            self.answer(200, {"ETag": f'"part-{query["partNumber"]}"'})
        else:
            self.upload(body, self.headers.get("x-goog-if-generation-match"))

    def do_POST(self):
        body, query = self.body(), self.query()
        if "uploads" in query:
            result = f"<UploadId>{self.uploads.begin()}</UploadId>"
            self.answer(200, {}, f"<InitiateMultipartUploadResult>{result}</InitiateMultipartUploadResult>".encode())
            return
        parts = self.uploads.take(query["uploadId"])
        if parts is None:
            self.answer(404, {}, b"<Error><Code>NoSuchUpload</Code></Error>")
            return
        listed = [int(number) for number in re.findall(rb"<PartNumber>(\d+)</PartNumber>", body)]
        self.upload(b"".join(parts[number] for number in listed), None, "CompleteMultipartUploadResult")

    def do_GET(self):
        self.pass_on()

    def do_HEAD(self):
        self.pass_on()

    def do_DELETE(self):
        query = self.query()
        if "uploadId" in query:
            self.uploads.take(query["uploadId"])
            self.answer(204, {})
        else:
            self.pass_on()

    def upload(self, body, generation, result=None):
        """The same as an upload of the JSON interface."""
        bucket, _, name = self.path.split("?")[0].lstrip("/").partition("/")
        query = {"uploadType": "media", "name": urllib.parse.unquote(name)}
        if generation is not None:
            query["ifGenerationMatch"] = generation
        target = f"/upload/storage/v1/b/{bucket}/o?{urllib.parse.urlencode(query)}"
        status, _, answer = self.ask("POST", target, body, {"content-type": "application/octet-stream"})
        if status != 200:
            self.answer(status, {}, f"<Error><Code>{status}</Code></Error>".encode())
            return
        made = json.loads(answer)
        headers = {"ETag": f'"{made["etag"]}"', "x-goog-generation": made["generation"]}
        xml = f"<{result}><ETag>{made['etag']}</ETag></{result}>" if result else ""
        self.answer(200, headers, xml.encode())

    def pass_on(self):
        headers = {name: value for name, value in self.headers.items() if name.lower() in PASSED_ON}
        status, headers, body = self.ask(self.command, self.path, None, headers | {"host": self.server.host})
        kept = {name: value for name, value in headers if name.lower() not in NOT_PASSED_BACK}
        if self.command == "HEAD":
            kept["Content-Length"] = dict(headers).get("Content-Length", "0")
        self.answer(status, kept, body)

    def ask(self, method, target, body, headers):
        connection = http.client.HTTPConnection(self.server.upstream, timeout=30)
        try:
            connection.request(method, target, body, headers)
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()
        finally:
            connection.close()

    def answer(self, status, headers, body=b""):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def query(self):
        return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query, keep_blank_values=True))

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def log_message(self, *_):
        pass


def main(upstream, host):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Translator)
    server.upstream, server.host = upstream, host
    print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
