"""A server that receives webhooks, for the tests of their content and delivery."""

import http.server
import json
import threading


class WebhookReceiver:
    """Refuses each event `fails` times before it accepts it. `requests` has the headers and the body of each request."""

    def __init__(self, fails=0):
        self.requests, self.fails, self.seen = [], fails, {}
        sink = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                event = json.loads(body).get("event_id", "")
                sink.requests.append((dict(self.headers), body))
                sink.seen[event] = sink.seen.get(event, 0) + 1
                self.send_response(503 if sink.seen[event] <= sink.fails else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def payloads(self):
        """Returns the payloads of all requests, in order."""
        return [json.loads(body) for _, body in self.requests]

    def taken(self):
        """Returns the accepted payloads, in order."""
        counts, taken = {}, []
        for event in self.payloads():
            name = event.get("event_id", "")
            counts[name] = counts.get(name, 0) + 1
            if counts[name] == self.fails + 1:
                taken.append(event)
        return taken

    def close(self):
        self.server.shutdown()
        self.server.server_close()
