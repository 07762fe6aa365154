"""What a model is needed for, of the command `shard`: SHARD_PROGRAM names it, built with the feature `encode`."""

import asyncio
import contextlib
import http.client
import json
import os
import shutil
import subprocess
import sys
import urllib.parse
from pathlib import Path

import numpy as np
import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

ROOT = Path(__file__).resolve().parents[3]
CLICK = ROOT / "crates" / "cli" / "tests" / "console" / "click.py"
SCIFACT = ROOT / "crates" / "cli" / "assets" / "scifact"

DOCUMENTS = [
    {
        "id": "heart",
        "title": "The <b>heart</b>",
        "text": "The heart pumps blood through the body. <script>alert(1)</script> " + "It beats day and night. " * 60,
        "year": 2021,
    },
    {"id": "paris", "title": "A city", "text": "Paris is the capital of France.", "year": 2019},
    {"id": "bread", "text": "Bread is made of flour, water and salt. " + "It is baked in an oven. " * 60, "year": 1999},
]


@pytest.fixture(scope="module")
def environment():
    return {"PATH": os.environ["PATH"], "SHARD_PASSPHRASE": "a passphrase for tests"}


@pytest.fixture(scope="module")
def vault(tmp_path_factory, program, environment, minilm):
    folder = tmp_path_factory.mktemp("program")
    (folder / "documents.jsonl").write_text("".join(json.dumps(one) + "\n" for one in DOCUMENTS))
    model = os.environ["SHARD_MINILM"]

    def shard(*arguments):
        subprocess.run([program, *arguments], env=environment, cwd=folder, check=True, capture_output=True)

    shard("init", "vault")
    shard("ingest", "vault", "documents.jsonl", "--encoder", os.path.abspath(model))
    return folder / "vault"


def test_an_assistant_searches_through_the_official_client(program, environment, vault):
    server = StdioServerParameters(command=program, args=["mcp", str(vault)], env=environment)

    async def talk():
        async with Client(server) as client:
            tools = (await client.list_tools()).tools
            assert [tool.name for tool in tools] == ["search"]
            found = await client.call_tool("search", {"query": "circulation of the blood", "k": 2})
            passages = found.structured_content["passages"]
            assert [one["id"] for one in passages][0] == "heart" and len(passages) == 2
            assert "The heart pumps blood" in found.content[0].text
            found = await client.call_tool("search", {"query": "blood", "where": {"year": {"$lt": 2000}}})
            assert [one["id"] for one in found.structured_content["passages"]] == ["bread"]
            found = await client.call_tool("search", {"query": "blood", "where": {"title": "A city"}})
            assert found.structured_content["passages"] == []
            assert '"title" is no field to filter by: there are year' in found.content[0].text
            for wrong in ({"query": ""}, {"query": "a", "k": 0}, {"query": "a", "where": {"year": {"$near": 1}}}):
                with pytest.raises(MCPError):
                    await client.call_tool("search", wrong)
            assert (await client.call_tool("search", {"query": "baking"})).structured_content["passages"]

    asyncio.run(talk())


@contextlib.contextmanager
def console(program, environment, *arguments):
    """The address that `shard console` prints, for as long as it runs."""
    command = [program, "console", *map(str, arguments)]
    running = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        yield running.stdout.readline().split()[-1]
    finally:
        running.terminate()
        running.wait()


def click(*arguments):
    if shutil.which("chromium") is None:
        if os.environ.get("CI"):
            pytest.fail("chromium is not installed")
        pytest.skip("chromium is not installed")
    done = subprocess.run([sys.executable, "-B", str(CLICK), *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout


@pytest.fixture
def pictures(tmp_path):
    return Path(os.environ.get("SHARD_PICTURES", tmp_path))


def test_a_person_clicks_through_the_console(program, environment, vault, tmp_path, pictures):
    with console(program, environment, vault, "--audit", tmp_path / "none") as url:
        click(url, pictures, "circulation of the blood", "heart", "--passage", "The heart pumps blood")


def test_a_person_clicks_through_the_console_of_a_rotated_vault_with_its_audit(
    program, environment, tmp_path, pictures, minilm
):
    ids = (SCIFACT / "ids.txt").read_text().split()[:400]
    vectors = np.load(SCIFACT / "docs.npy")[:400]
    np.save(tmp_path / "documents.npy", vectors)
    (tmp_path / "ids.txt").write_text("".join(f"{one}\n" for one in ids))

    def shard(*arguments):
        return subprocess.run([program, *arguments], env=environment, cwd=tmp_path, capture_output=True, text=True)

    for command in (
        ("init", "vault", "--protection", "rotated", "--cells", "4"),
        ("ingest", "vault", "documents.npy", "--ids", "ids.txt"),
        ("audit", "vault", "--out", "audit"),
    ):
        done = shard(*command)
        assert done.returncode == 0, done.stderr
    # It took vectors only, and so knows no encoder.
    nameless = shard("console", "vault")
    assert nameless.returncode == 1 and "--encoder" in nameless.stderr, nameless.stderr
    query = "growth of tumors in mice"
    scores = vectors.astype(np.float64) @ minilm.encode([query], query=True)[0].astype(np.float64)
    options = ("--encoder", os.path.abspath(os.environ["SHARD_MINILM"]), "--audit", tmp_path / "audit")
    with console(program, environment, tmp_path / "vault", *options) as url:
        click(url, pictures / "rotated", query, ids[int(scores.argmax())], "--audit")


def test_the_console_refuses_whoever_has_no_token_or_comes_by_another_name(program, environment, vault, tmp_path):
    (tmp_path / "audit.html").write_text("<h1>an audit</h1>")
    with console(program, environment, vault, "--audit", tmp_path) as url:
        address = urllib.parse.urlsplit(url)
        token = urllib.parse.parse_qs(address.query)["token"][0]

        def answer(method, path, **headers):
            connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
            body = json.dumps({"query": "blood", "k": 1}) if method == "POST" else None
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            answered = connection.getresponse()
            return answered.status, answered.read().decode()

        for method, path, content in (
            ("GET", "/api/state", "blind"),
            ("POST", "/api/search", "heart"),
            ("GET", "/audit", "an audit"),
        ):
            status, body = answer(method, path, X_Shard_Token=token)
            assert status == 200 and content in body
            refused = [
                answer(method, path),
                answer(method, path, X_Shard_Token="0" * 64),
                answer(method, f"{path}?token={token}"),
                answer(method, path, X_Shard_Token=token, Host="evil.example"),
                answer(method, path, X_Shard_Token=token, Host=f"evil.example:{address.port}"),
            ]
            assert [status for status, _ in refused] == [403] * len(refused), path
            assert not any(content in body for _, body in refused)


@pytest.mark.parametrize("example", ["rag_langchain.py", "rag_llamaindex.py"])
def test_an_example_answers_from_what_it_found(example, minilm):
    path = Path(__file__).resolve().parents[1] / "examples" / example
    done = subprocess.run([sys.executable, str(path), os.environ["SHARD_MINILM"]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "The heart pumps blood" in done.stdout and "Paris" not in done.stdout
