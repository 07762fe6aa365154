"""What a model is needed for, of the command `shard`: SHARD_PROGRAM names it, built with the feature `encode`."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

ROOT = Path(__file__).resolve().parents[3]
CLICK = ROOT / "crates" / "cli" / "tests" / "console" / "click.py"

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
def program():
    named = os.environ.get("SHARD_PROGRAM")
    if named is None:
        if os.environ.get("CI"):
            pytest.fail("SHARD_PROGRAM names the command, built with the feature encode")
        pytest.skip("SHARD_PROGRAM is not set")
    return named


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
            for wrong in ({"query": ""}, {"query": "a", "k": 0}, {"query": "a", "where": {"year": {"$near": 1}}}):
                with pytest.raises(MCPError):
                    await client.call_tool("search", wrong)
            assert (await client.call_tool("search", {"query": "baking"})).structured_content["passages"]

    asyncio.run(talk())


def test_a_person_clicks_through_the_console(program, environment, vault, tmp_path):
    chromium = shutil.which("chromium")
    if chromium is None:
        if os.environ.get("CI"):
            pytest.fail("chromium is not installed")
        pytest.skip("chromium is not installed")
    pictures = Path(os.environ.get("SHARD_PICTURES", tmp_path))
    console = subprocess.Popen(
        [program, "console", str(vault)], env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    try:
        url = console.stdout.readline().split()[-1]
        click = [sys.executable, "-B", str(CLICK), url, str(pictures), "circulation of the blood", "heart"]
        done = subprocess.run([*click, "--passage", "The heart pumps blood"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr + done.stdout
    finally:
        console.terminate()
        console.wait()


@pytest.mark.parametrize("example", ["rag_langchain.py", "rag_llamaindex.py"])
def test_an_example_answers_from_what_it_found(example, minilm):
    path = Path(__file__).resolve().parents[1] / "examples" / example
    done = subprocess.run([sys.executable, str(path), os.environ["SHARD_MINILM"]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "The heart pumps blood" in done.stdout and "Paris" not in done.stdout
