"""Chromium, headless, over its DevTools protocol, with nothing but Python's standard library."""

import base64
import json
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
import urllib.request

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
]

# Seconds until something that should happen counts as not happening.
PATIENCE = 60

# Windows key codes of keys without a letter.
KEYS = {"Enter": 13, "Tab": 9, "ArrowDown": 40, "ArrowUp": 38, "Space": 32, "Delete": 46}


class Failure(Exception):
    """The page does not do what it should."""


class WebSocket:
    """A client of RFC 6455 for text messages."""

    def __init__(self, host, port, path):
        self.socket = socket.create_connection((host, port), timeout=PATIENCE)
        self.received = b""
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        while b"\r\n\r\n" not in self.received:
            self._more()
        head, self.received = self.received.split(b"\r\n\r\n", 1)
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise Failure(f"chromium refused the websocket: {head!r}")

    def _more(self):
        part = self.socket.recv(1 << 16)
        if not part:
            raise Failure("chromium closed the connection")
        self.received += part

    def _take(self, count):
        while len(self.received) < count:
            self._more()
        taken, self.received = self.received[:count], self.received[count:]
        return taken

    def send(self, text, opcode=1):
        payload = text.encode()
        length = len(payload)
        if length < 126:
            head = struct.pack("!BB", 0x80 | opcode, 0x80 | length)
        elif length < 1 << 16:
            head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, length)
        else:
            head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, length)
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))
        self.socket.sendall(head + mask + masked)

    def receive(self):
        message = b""
        while True:
            first, second = self._take(2)
            length = second & 0x7F
            if length == 126:
                (length,) = struct.unpack("!H", self._take(2))
            elif length == 127:
                (length,) = struct.unpack("!Q", self._take(8))
            payload = self._take(length)
            opcode = first & 0x0F
            if opcode == 8:
                raise Failure("chromium closed the connection")
            if opcode == 9:
                self.send(payload.decode(), opcode=10)
            if opcode in (0, 1):
                message += payload
                if first & 0x80:
                    return message.decode()


class Browser:
    """A new Chromium with one page, and what the page reported since it was opened."""

    def __init__(self, program=None):
        names = ["chromium", "chromium-browser", "google-chrome"]
        program = program or next(filter(None, map(shutil.which, names)), None)
        if program is None:
            raise Failure("no chromium on the path")
        self.profile = tempfile.mkdtemp(prefix="console-click-")
        self.process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={self.profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.events = []
        self.number = 0
        try:
            self.connect()
        except BaseException:
            self.close()
            raise

    def connect(self):
        said = os.path.join(self.profile, "DevToolsActivePort")
        until = time.monotonic() + PATIENCE
        port = None
        while port is None:
            if self.process.poll() is not None or time.monotonic() > until:
                raise Failure("chromium did not start")
            if os.path.exists(said):
                with open(said, encoding="ascii") as file:
                    port = file.readline().strip() or None
            time.sleep(0.05)
        self.port = int(port)
        path = "/" + self.pages()[0]["webSocketDebuggerUrl"].split("/", 3)[3]
        self.socket = WebSocket("127.0.0.1", self.port, path)

    def pages(self):
        """The pages that are open, in all tabs."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/json/list", timeout=PATIENCE) as answer:
            return [page for page in json.load(answer) if page["type"] == "page"]

    def close_page(self, page):
        """Closes another tab, so that this one is drawn again."""
        urllib.request.urlopen(f"http://127.0.0.1:{self.port}/json/close/{page['id']}", timeout=PATIENCE).close()
        self.call("Page.bringToFront")

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, **parameters):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.receive())
            if message.get("id") == self.number:
                if "error" in message:
                    raise Failure(f"{method}: {message['error']['message']}")
                return message["result"]
            if "method" in message:
                self.events.append(message)

    def value(self, expression):
        """What an expression in the page is, promises awaited."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise Failure(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def until(self, what, expression):
        """Waits until an expression in the page holds."""
        until = time.monotonic() + PATIENCE
        while not self.value(expression):
            if time.monotonic() > until:
                raise Failure(f"waited in vain until {what}")
            time.sleep(0.05)

    def press(self, key, shift=False):
        text = {"Enter": "\r", "Space": " "}.get(key, key if len(key) == 1 else "")
        about = {
            "key": " " if key == "Space" else key,
            "code": key,
            "windowsVirtualKeyCode": KEYS.get(key, ord(key[0].upper())),
            "modifiers": 8 if shift else 0,
        }
        down = {"text": text} if text else {}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **about, **down)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def write(self, text):
        """Types a text at the focus."""
        self.call("Input.insertText", text=text)

    def click(self, selector):
        """Clicks on the middle of an element with the mouse."""
        box = self.value(
            f"(() => {{ const element = document.querySelector({json.dumps(selector)});"
            " element.scrollIntoView({ block: 'center' });"
            " const box = element.getBoundingClientRect();"
            " return [box.left + box.width / 2, box.top + box.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def show(self, width, height, scheme):
        """A window of some width, light or dark."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def picture(self, path):
        """A picture of the whole page, also of what is below the window."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))
