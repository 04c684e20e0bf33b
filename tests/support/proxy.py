"""A proxy in front of the admin port, as nginx is one: it shows a path of a site, and says whom it heard from."""

import contextlib
import http.client
import http.server
import threading

_NOT_PASSED_ON = {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}


@contextlib.contextmanager
def proxy(port, client_address="203.0.113.7", scheme="https"):
    """Yield the port of a proxy for a port of this machine; it says that clients come from elsewhere."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def _pass_on(self):
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _NOT_PASSED_ON}
            headers |= {"X-Forwarded-For": client_address, "X-Forwarded-Proto": scheme, "Connection": "close"}
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
                data = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in _NOT_PASSED_ON:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = _pass_on

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
