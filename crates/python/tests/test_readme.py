"""What the READMEs show runs as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("readme", ["README.md", "crates/python/README.md"])
def test_the_example_of_a_readme_runs(readme, tmp_path, minilm):
    (block,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / readme).read_text(encoding="utf-8"), re.M | re.S)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "all-MiniLM-L6-v2").symlink_to(os.path.abspath(os.environ["SHARD_MINILM"]))
    done = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    first, second, filtered = done.stdout.splitlines()
    assert "The heart pumps blood" in first and "The heart pumps blood" not in second
    assert "Paris is the capital of France." in filtered
