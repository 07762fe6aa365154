"""Clicks through the page of `shard console` in a real browser, and leaves pictures of it.

    python3 click.py URL PICTURES QUERY FIRST_ID [--passage WORDS] [--audit] [--bad-filter FILTER]
                     [--empty-filter FILTER] [--unknown-field NAME] [--chromium PROGRAM]

URL is the address that the console printed, with its token; FIRST_ID the id of the first hit for QUERY,
and WORDS something that its passage contains. With --audit, an audit of the vault must be there. Of a
blind vault, at least one passage among the hits must be longer than the four lines that are shown at
first; the bad filter cannot be read, the empty one fits no document, and no document has the unknown field.
Needs chromium and python3, no package.
"""

import argparse
import base64
import json
import os
import sys
import time
import urllib.parse
import urllib.request

from devtools import Browser, Failure, PATIENCE

WIDTHS = (390, 1440)
SCHEMES = ("light", "dark")

# What the time of a search is spent on, in order.
PHASES = [
    "words into a vector", "choose the rows", "rotate the query", "encrypt the query",
    "wait for the answer", "check and open it", "fetch the passages",
]

# Runs before the page's own script.
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", event =>
  window.violations.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sample}`));
"""

# What sticks out to the right, but for what scrolls by itself or is for the ears only.
OUTSIDE = """
[...document.querySelectorAll("body *")].filter(element =>
  !element.closest(".unseen, .names") && element.getBoundingClientRect().right > innerWidth + 0.5
).map(element => element.tagName + "." + element.getAttribute("class"))
"""

# Text whose contrast with what is behind it is below 4.5 to 1 (WCAG 2.2, level AA).
PALE = """
(() => {
  const parts = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = ([red, green, blue]) => {
    const part = value => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
  };
  const behind = element => {
    for (; element; element = element.parentElement) {
      const colour = parts(getComputedStyle(element).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  return [...document.querySelectorAll("body *")].filter(element =>
    element.checkVisibility() && !element.matches("script, .unseen") &&
    [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim())
  ).map(element => {
    const style = getComputedStyle(element);
    const [one, other] = [light(parts(element instanceof SVGElement ? style.fill : style.color)), light(behind(element))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    return [contrast, `${contrast.toFixed(2)} ${element.tagName}: ${element.textContent.slice(0, 30)}`];
  }).filter(([contrast]) => contrast < 4.5).map(([, words]) => words);
})()
"""

FOCUS = """
(() => {
  const element = document.activeElement;
  const style = getComputedStyle(element);
  return [element.id || element.className || element.tagName, style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2];
})()
"""


def check(what, holds, found=""):
    if not holds:
        raise Failure(f"{what}: {found}" if found != "" else what)
    print(f"ok    {what}")


class Click:
    def __init__(self, browser, arguments):
        self.browser = browser
        self.arguments = arguments
        address = urllib.parse.urlsplit(arguments.url)
        self.token = urllib.parse.parse_qs(address.query)["token"][0]
        request = urllib.request.Request(f"{address.scheme}://{address.netloc}/api/state", headers={"X-Shard-Token": self.token})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            self.state = json.load(answer)
        self.is_blind = self.state["protection"] == "blind"

    def text(self, selector):
        return self.browser.value(f"document.querySelector({json.dumps(selector)}).textContent")

    def load(self):
        browser = self.browser
        for domain in ("Page", "Runtime", "Log", "Network"):
            browser.call(f"{domain}.enable")
        browser.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        browser.show(1440, 1000, "light")
        browser.call("Page.navigate", url=self.arguments.url)
        browser.until("the page knows its vault", "document.readyState === 'complete' && document.querySelectorAll('#facts dd').length > 0")
        responses = [event["params"] for event in browser.events if event["method"] == "Network.responseReceived"]
        headers = next(response["response"]["headers"] for response in responses if response["type"] == "Document")
        policy = {name.lower(): value for name, value in headers.items()}.get("content-security-policy", "")
        check("a strict policy is sent", "default-src 'none'" in policy and "script-src 'nonce-" in policy, policy)
        check("the address bar has lost the token", self.token not in browser.value("location.href"))
        entries = [entry["url"] for entry in browser.call("Page.getNavigationHistory")["entries"]]
        check("so has the way back in this tab", not any(self.token in entry for entry in entries), entries)
        check("the vault is named", self.text("#vault") == self.state["vault"], self.text("#vault"))

    def check_noise(self):
        if not self.state["block"]:
            check("no block is drawn where there is none", self.browser.value("document.getElementById('noise') === null"))
            return
        head = list(base64.b64decode(self.state["block"]["head"]))
        shown = self.browser.value(
            "(() => { const canvas = document.getElementById('noise');"
            " const image = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);"
            " return [...image.data].filter((_, place) => place % 4 === 0); })()"
        )
        check("the noise is that of the block, byte by byte", shown[: len(head)] == head and len(set(head)) > 100)
        check("its first 64 bytes are there in hexadecimal", bytes.fromhex(self.text("#hex")) == bytes(head[:64]), self.text("#hex"))
        check("the noise has a text alternative", self.browser.value("document.getElementById('noise').getAttribute('aria-label').length > 20"))

    def check_audit(self):
        browser, audit = self.browser, self.state["audit"]
        check("an audit of this vault is found where there is one", (audit is not None) == self.arguments.audit, audit)
        if audit is None:
            check("how to run an audit is said", "shard audit" in self.text("#audit code"), self.text("#audit"))
            return
        check("the audit's date is shown", audit["date"] in self.text("#audit"), self.text("#audit"))
        expected = [[found["title"], found["verdict"], found["figure"]] for found in audit["verdicts"]]
        check("it has verdicts and figures", expected and any(figure for _, _, figure in expected), expected)
        shown = browser.value(
            "[...document.querySelectorAll('.verdicts > li')].map(row => [row.firstChild.textContent,"
            " row.querySelector('.chip').lastChild.textContent.trim(), row.querySelector('.line > span:not(.chip)')?.textContent ?? null])"
        )
        check("each of them is shown", shown == expected, shown)
        browser.click("#audit button")
        until = time.monotonic() + PATIENCE
        reports = []
        while not reports and time.monotonic() < until:
            time.sleep(0.05)
            reports = [page for page in browser.pages() if page["url"].startswith("blob:") and page["title"].startswith("Shard audit")]
        check("the whole report opens in a tab of its own", len(reports) == 1, browser.pages())
        browser.close_page(reports[0])

    def write(self, field, text):
        self.browser.value(f"document.getElementById({json.dumps(field)}).select()")
        if text:
            self.browser.write(text)
        else:
            self.browser.press("Delete")

    def search(self):
        """Enter in the field for the query, until the answer is there."""
        browser = self.browser
        browser.value("document.getElementById('query').focus()")
        browser.value("document.getElementById('status').textContent = ''")
        browser.press("Enter")
        browser.until("the search ends", "document.getElementById('results').getAttribute('aria-busy') === 'false'"
                      " && (document.getElementById('status').textContent !== '' || !document.getElementById('problem').hidden)")

    def check_first_search(self):
        browser = self.browser
        browser.value("document.activeElement.blur()")
        browser.press("/")
        check("the key / goes to the search box", browser.value("document.activeElement.id") == "query")
        check("and is not written into it", browser.value("document.getElementById('query').value") == "")
        browser.write(self.arguments.query)
        browser.value(
            "window.busy = []; new MutationObserver(() => window.busy.push(document.getElementById('results').getAttribute('aria-busy')))"
            ".observe(document.getElementById('results'), { attributeFilter: ['aria-busy'] })"
        )
        self.search()
        busy = browser.value("window.busy")
        check("the results are busy while the search runs", busy == ["true", "false"], busy)
        check("no error is shown", browser.value("document.getElementById('problem').hidden"), self.text("#problem"))
        count = browser.value("document.querySelectorAll('.hits > li').length")
        check("there are results", count > 0)
        check("their number is announced", self.text("#status").startswith(f"{count} result"), self.text("#status"))
        self.check_hits()

    def check_hits(self):
        first = self.text(".hits .id")
        check(f"the first hit is {self.arguments.first}", first == self.arguments.first, first)
        if self.arguments.passage:
            passage = self.text(".hits > li .passage")
            check("it has its passage", self.arguments.passage in passage, passage)
        inside = self.browser.value(
            "[...document.querySelectorAll('.hits .title, .hits .passage, .hits .id, .hits .value')].filter(part => part.children.length).map(part => part.innerHTML)"
        )
        check("what documents say is text, not markup", inside == [], inside)
        own = self.browser.value("document.querySelectorAll('script, img, iframe, object').length")
        check("the page has one script and no picture from elsewhere", own == 1, own)

    def check_more(self):
        browser = self.browser
        more = browser.value("[...document.querySelectorAll('.more')].filter(button => !button.hidden).length")
        check("a long passage is cut", more > 0)
        selector = ".more:not([hidden])"
        height = f"document.querySelector('{selector}').previousElementSibling.clientHeight"
        before = browser.value(height)
        browser.click(selector)
        check("more shows more of it", browser.value(height) > before)
        check("and says so", browser.value(f"document.querySelector('{selector}').getAttribute('aria-expanded')") == "true")
        browser.click(selector)
        check("less shows less again", browser.value(height) == before)

    def check_saw(self):
        browser = self.browser
        found = browser.value(
            "[...document.querySelectorAll('#timeline .bar')].map(bar => [bar.getAttribute('class'), bar.getBBox().width > 0 && bar.getBBox().height > 0])"
        )
        kinds = {kind for kind, is_drawn in found if is_drawn}
        check("the time line has bars up and down", kinds == {"bar up", "bar down"} and all(is_drawn for _, is_drawn in found), found)
        rows = browser.value("document.querySelectorAll('#messages tbody tr').length")
        check("and a table of as many messages", rows == len(found), (rows, len(found)))
        cut = browser.value(
            "[...document.querySelectorAll('#timeline text')].filter(text => { const box = text.getBBox(); const view = text.ownerSVGElement.viewBox.baseVal;"
            " return box.x < -0.5 || box.x + box.width > view.width + 0.5 || box.y < -0.5 || box.y + box.height > view.height + 0.5; }).map(text => text.textContent)"
        )
        check("no label is cut off", cut == [], cut)
        check("what the server saw is said in sentences", browser.value("document.querySelectorAll('#sentences li').length") > 0)
        names = browser.value("document.querySelectorAll('.names li').length")
        check("rows are named in a rotated collection and only there", (names == 0) == self.is_blind, names)
        phases = browser.value("[...document.querySelectorAll('#times tbody th')].map(cell => cell.textContent)")
        check("the parts of the time are in their order", phases == [phase for phase in PHASES if phase in phases], phases)
        check("and those of the vault's protection", ("rotate the query" in phases, "fetch the passages" in phases) == (not self.is_blind, self.is_blind), phases)
        colours = browser.value("[...document.querySelectorAll('#times .swatch')].map(swatch => getComputedStyle(swatch).backgroundColor)")
        check("each in a colour of its own", len(set(colours)) == len(phases), colours)
        check("the times add up", browser.value(
            "(() => { const times = [...document.querySelectorAll('#times td')].map(cell => Number(cell.textContent)); const all = times.pop();"
            " return Math.abs(times.reduce((sum, time) => sum + time, 0) - all) <= Math.max(0.5 * times.length, 0.05); })()"
        ))

    def check_direct(self):
        if not self.is_blind:
            check("direct fetches are offered in blind collections only", self.browser.value("document.getElementById('directly').hidden"))
            return
        self.browser.click("#direct")
        check("direct fetches are switched on", self.browser.value("document.getElementById('direct').checked"))
        self.search()
        check("the page says that they were direct", "directly" in self.text("#found"), self.text("#found"))
        check("and what that showed", "fetched-records" in self.text("#sentences"), self.text("#sentences"))
        self.check_hits()

    def check_focus(self):
        browser = self.browser
        browser.value("document.activeElement.blur(); getSelection().removeAllRanges(); scrollTo(0, 0)")
        # The order begins at the top again only from there.
        browser.value("document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex')")
        expected = ["skip", "query", "submit", "count"] + (["where", "direct"] if self.is_blind else [])
        order = []
        for _ in expected:
            browser.press("Tab")
            found, is_visible = browser.value(FOCUS)
            check(f"the focus on {found} can be seen", is_visible)
            order.append(found)
        check("Tab goes through the controls in the order of the page", order == expected, order)
        browser.press("Tab")
        check("and on into the results or what is beside them", browser.value("document.activeElement.closest('main .columns') !== null"))
        browser.value("document.querySelector('.skip').focus()")
        browser.press("Enter")
        browser.until("the skip link goes to the results", "document.activeElement.id === 'results'")
        browser.value("document.getElementById('query').focus()")
        browser.press("ArrowDown")
        check("the arrow goes to the first result", browser.value("document.activeElement === document.querySelector('.hits > li')"))
        browser.press("ArrowUp")
        check("and back", browser.value("document.activeElement.id") == "query")

    def check_filter(self):
        if not self.is_blind:
            check("filters are offered in blind collections only", not self.browser.value("document.getElementById('where').checkVisibility()"))
            return
        self.write("where", self.arguments.empty_filter)
        self.search()
        check("no error is shown for a filter that nothing fits", self.browser.value("document.getElementById('problem').hidden"), self.text("#problem"))
        check("that there are no results is shown", self.browser.value("!document.getElementById('empty').hidden && document.getElementById('hits').children.length === 0"))
        check("and announced", self.text("#status").startswith("No results"), self.text("#status"))
        check("nothing is said of a field that documents have", self.text("#notes") == "", self.text("#notes"))
        field = self.arguments.unknown_field
        self.write("where", f"{field} >= 1")
        self.search()
        check("a field that no document has is named above the results", f'no document has a field "{field}"' in self.text("#notes"), self.text("#notes"))
        check("and read out", f'"{field}"' in self.text("#status"), self.text("#status"))
        pale = self.browser.value(PALE)
        check("and can be read", pale == [], pale)
        self.write("where", "")
        self.search()
        check("it is gone with the filter", self.text("#notes") == "", self.text("#notes"))
        self.check_hits()

    def check_errors(self):
        browser = self.browser
        before = self.text("#hits")
        field, wrong, right = ("where", self.arguments.bad_filter, "") if self.is_blind else ("query", "  ", self.arguments.query)
        self.write(field, wrong)
        mark = self.mark()
        self.search()
        check("an invalid filter or query is an error", not browser.value("document.getElementById('problem').hidden"))
        check("said in a sentence, aloud", len(self.text("#problem .message")) > 10 and browser.value("document.getElementById('problem').getAttribute('role')") == "alert")
        check("earlier results stay", self.text("#hits") == before and before != "")
        self.expect(mark, "Failed to load resource")
        browser.picture(os.path.join(self.arguments.pictures, "error.png"))
        self.write(field, right)
        browser.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1)
        mark = self.mark()
        self.search()
        check("a console that does not answer is said", "does not answer" in self.text("#problem"), self.text("#problem"))
        check("and results stay then too", self.text("#hits") == before)
        self.expect(mark, "Failed to load resource")
        browser.call("Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1)
        browser.click("#problem button")
        browser.until("the problem goes away when it answers again", "document.getElementById('problem').hidden")
        self.search()
        check("a search works again", browser.value("document.getElementById('problem').hidden"), self.text("#problem"))

    def check_looks(self):
        browser = self.browser
        browser.value("document.activeElement.blur()")
        for width in WIDTHS:
            for scheme in SCHEMES:
                browser.show(width, 900, scheme)
                wide = browser.value("document.documentElement.scrollWidth")
                check(f"nothing scrolls sideways at {width}, {scheme}", wide <= width, wide)
                outside = browser.value(OUTSIDE)
                check("nothing sticks out", outside == [], outside)
                pale = browser.value(PALE)
                check("all text can be read", pale == [], pale)
                browser.picture(os.path.join(self.arguments.pictures, f"console-{width}-{scheme}.png"))
            self.check_saw()

    def mark(self):
        self.browser.value("0")
        return len(self.browser.events)

    def expect(self, mark, words):
        """Forgets the errors since a mark that the browser reports of a request that was meant to fail."""
        self.browser.value("0")

        def is_meant(event):
            entry = event["params"].get("entry", {})
            return event["method"] == "Log.entryAdded" and entry["source"] == "network" and words in entry["text"]

        events = self.browser.events
        events[mark:] = [event for event in events[mark:] if not is_meant(event)]

    def check_reports(self):
        violations = self.browser.value("window.violations")
        check("nothing was against the policy", violations == [], violations)
        bad = []
        for event in self.browser.events:
            parameters = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                bad.append(parameters["exceptionDetails"])
            elif event["method"] == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
                bad.append(parameters["args"])
            elif event["method"] == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                bad.append(parameters["entry"])
            elif event["method"] == "Network.requestWillBeSent":
                address = parameters["request"]["url"]
                if not address.startswith(("data:", self.arguments.url.split("?")[0])):
                    bad.append(address)
        check("no error in the browser's console, no request elsewhere", bad == [], bad)


def main():
    parser = argparse.ArgumentParser(description="Clicks through the page of `shard console`.")
    parser.add_argument("url")
    parser.add_argument("pictures")
    parser.add_argument("query")
    parser.add_argument("first")
    parser.add_argument("--passage")
    parser.add_argument("--audit", action="store_true")
    parser.add_argument("--bad-filter", default="year >=")
    parser.add_argument("--empty-filter", default="year >= 9999")
    parser.add_argument("--unknown-field", default="yaer")
    parser.add_argument("--chromium")
    arguments = parser.parse_args()
    os.makedirs(arguments.pictures, exist_ok=True)
    browser = None
    try:
        browser = Browser(arguments.chromium)
        click = Click(browser, arguments)
        click.load()
        browser.picture(os.path.join(arguments.pictures, "before.png"))
        click.check_noise()
        click.check_audit()
        click.check_first_search()
        if click.is_blind:
            click.check_more()
        click.check_saw()
        click.check_looks()
        browser.show(1440, 1000, "light")
        click.check_direct()
        click.check_focus()
        click.check_filter()
        click.check_errors()
        click.check_reports()
    except Failure as failure:
        print(f"FAIL  {failure}", file=sys.stderr)
        if browser is not None and browser.process.poll() is None and hasattr(browser, "socket"):
            browser.picture(os.path.join(arguments.pictures, "failure.png"))
        return 1
    finally:
        if browser is not None:
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
