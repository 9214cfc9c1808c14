"""Calls of the master, repeated as the real library repeats them."""

import http.client
import json
import math
import os
import threading
import time
import urllib.parse

RETRIES, BACKOFF_S, LONGEST_PAUSE_S = 20, 0.5, 120
WAIT_STATUSES = (413, 429, 503)  # sent again if the answer says when


class APIException(Exception):
    def __init__(self, status, text):
        super().__init__(f"the master answered {status}: {text}")
        self.status_code = status


class MasterNotFoundException(Exception):
    pass


def finite(value):
    """JSON has no infinite numbers; the master takes their names."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


class Session:
    """Threads may share it; it keeps idle connections open."""

    def __init__(self, master_url):
        url = urllib.parse.urlparse(master_url)
        self.host, self.port = url.hostname, url.port or 80
        token = os.environ.get("DET_USER_TOKEN") if "DET_USER" in os.environ else None
        if token is None:
            raise RuntimeError("DET_USER and DET_USER_TOKEN are not set, so the library would ask for a password")
        self.headers = {"Authorization": f"Bearer {token}"}
        self.idle, self.lock = [], threading.Lock()

    def send(self, method, path, body, timeout):
        """Returns (status, answer, headers); OSError and HTTPException: the connection failed."""
        with self.lock:
            connection = self.idle.pop() if self.idle else http.client.HTTPConnection(self.host, self.port)
        connection.timeout = timeout
        try:
            if connection.sock:
                connection.sock.settimeout(timeout)
            connection.request(method, path, body, self.headers)
            response = connection.getresponse()
            answer = response.read()
        except BaseException:
            connection.close()
            raise
        with self.lock:
            self.idle.append(connection)
        return response.status, answer, response.headers

    def call(self, method, path, body=None, timeout=None):
        """Returns the JSON of the answer."""
        text = json.dumps(finite(body)) if body else None
        for attempt in range(RETRIES + 1):
            if attempt > 1:
                time.sleep(min(BACKOFF_S * 2 ** (attempt - 1), LONGEST_PAUSE_S))
            try:
                status, answer, headers = self.send(method, path, text, timeout)
            except (OSError, http.client.HTTPException) as error:
                failure = error
                continue
            if status in WAIT_STATUSES and "Retry-After" in headers:
                failure = APIException(status, answer.decode(errors="replace"))
                time.sleep(float(headers["Retry-After"]))
                continue
            if status >= 300:
                raise APIException(status, answer.decode(errors="replace"))
            return json.loads(answer) if answer else {}
        raise MasterNotFoundException(f"{method} {path}: {failure}")

    def get(self, path, timeout=None):
        return self.call("GET", path, timeout=timeout)

    def post(self, path, body=None):
        return self.call("POST", path, body)

    def close(self):
        with self.lock:
            for connection in self.idle:
                connection.close()
            self.idle.clear()
