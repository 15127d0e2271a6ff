"""A headless Chromium that is driven through a pipe (--remote-debugging-pipe), so that it needs no
port and no package. It resolves no names.
"""
import base64
import itertools
import json
import os
import subprocess

NAMES = ("chromium", "chromium-browser", "google-chrome", "/usr/lib/chromium/chromium")
MOST_SECONDS = 900


def start(path):
    """The browser, and the descriptors to write to and to read from."""
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()

    def wire():
        os.dup2(theirs_in, 103)
        os.dup2(theirs_out, 104)
        os.dup2(103, 3)
        os.dup2(104, 4)

    profile = path + ".profile"
    process = subprocess.Popen(
        [find(), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         "--disable-dev-shm-usage", "--disable-background-networking", "--no-first-run",
         "--host-resolver-rules=MAP * ~NOTFOUND", "--remote-debugging-pipe",
         "--user-data-dir=" + profile, "about:blank"],
        preexec_fn=wire, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(theirs_in)
    os.close(theirs_out)
    return process, ours_out, ours_in


def find():
    for name in NAMES:
        for folder in os.environ.get("PATH", "").split(os.pathsep) + [""]:
            path = os.path.join(folder, name)
            if os.access(path, os.X_OK) and os.path.isfile(path):
                return path
    raise SystemExit("no Chromium is installed")


class Browser:
    """One tab. `complaints` are exceptions, console output, and requests for other files.
    """

    def __init__(self, folder):
        self.process, self.out, self.incoming = start(os.path.join(folder, "chromium"))
        self.rest = b""
        self.numbers = itertools.count(1)
        self.complaints = []
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")
        self.call("Performance.enable", timeDomain="threadTicks")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.session = None
        self.call("Browser.close")
        self.process.wait(MOST_SECONDS)

    def receive(self):
        while b"\0" not in self.rest:
            part = os.read(self.incoming, 1 << 20)
            if not part:
                raise SystemExit("Chromium ended")
            self.rest += part
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def note(self, message):
        method, values = message.get("method"), message.get("params", {})
        if method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
            self.complaints.append(json.dumps(values)[:500])
        elif method == "Network.requestWillBeSent":
            url = values["request"]["url"]
            if not url.startswith(("file:", "data:", "blob:", "about:")):
                self.complaints.append("asked for " + url)

    def call(self, method, **values):
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": values}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self.note(answer)

    def value(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True,
                           returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(json.dumps(answer["exceptionDetails"])[:800])
        return answer["result"].get("value")

    def processor_s(self):
        """The work of the page's thread."""
        metrics = self.call("Performance.getMetrics")["metrics"]
        return next(m["value"] for m in metrics if m["name"] == "TaskDuration")

    def size(self, width, height, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=scale, mobile=width < 600)

    def open(self, path, width, theme):
        self.size(width, 900)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": theme}])
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        self.value("new Promise(done => { const look = () => window.isDone ? done(1) "
                   ": setTimeout(look, 20); look(); })")

    def picture(self, path, width, height, scale=1):
        self.size(width, height, scale)
        self.value("new Promise(done => setTimeout(done, 400))")
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as out:
            out.write(base64.b64decode(data))
