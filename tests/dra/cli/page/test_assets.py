"""The files of the page: what is vendored is what was locked, and the page stays small."""

import gzip
import hashlib
import json
import re
from pathlib import Path

import pytest

from dra.cli.page.assets import SignIn, load_assets

ROOT = Path(__file__).parents[4]
STATIC = ROOT / "dra/cli/page/static"
VENDORED = (STATIC / "vendor", ROOT / "tests/page/vendor")

SCRIPT_BYTES_MAX = 25_500
"""Maximum size of all scripts of the page together, as they are served, compressed."""


@pytest.mark.parametrize("folder", VENDORED, ids=["page", "tests"])
def test_vendored_files_are_those_of_the_lock(folder):
    lock = json.loads((folder / "lock.json").read_text())
    locked = {name: digest for each in lock["packages"] for name, digest in each["files"].items()}
    found = {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in folder.iterdir()}
    del found["lock.json"]
    assert found == locked


@pytest.mark.parametrize("folder", VENDORED, ids=["page", "tests"])
def test_each_vendored_package_has_its_version_and_licence(folder):
    for each in json.loads((folder / "lock.json").read_text())["packages"]:
        assert re.fullmatch(r"\d+\.\d+\.\d+", each["version"])
        assert each["license"]
        assert f"{each['package']}.LICENSE" in each["files"]


def test_all_scripts_together_are_small():
    scripts = [asset.content for name, asset in sorted(load_assets().files.items()) if name.endswith(".mjs")]
    assert len(gzip.compress(b"".join(scripts), 9)) < SCRIPT_BYTES_MAX


def test_a_list_pads_by_the_height_of_its_rows():
    """Rows that are not drawn must take the same room above and below those that are."""
    windows = {
        script.name: (names, re.findall(r"\* ([\w.]+)\}px", text))
        for script in STATIC.glob("*.mjs")
        if (names := re.findall(r"= useWindow\(.+, ([\w.]+)\);", text := script.read_text()))
    }
    assert windows.keys() == {"nodes.mjs", "table.mjs", "waiting.mjs"}
    assert [name for name, (used, padded) in windows.items() if set(used) != set(padded) or len(padded) != 2] == []


def test_vendored_files_are_served_as_they_are():
    served = load_assets().files
    for each in (STATIC / "vendor").glob("*.mjs"):
        assert served[f"vendor/{each.name}"].content == each.read_bytes()


def test_comments_and_indentation_are_not_served():
    script = load_assets().files["store.mjs"].content.decode()
    assert "// The rows" not in script
    assert "// ms" not in script
    assert "\n  " not in script


def test_scripts_import_only_files_of_the_page():
    for each in STATIC.rglob("*.mjs"):
        for name in re.findall(r"""(?:from|import)\s*["']([^"']+)["']""", each.read_text()):
            assert (each.parent / name).is_file(), f"{each.name} imports {name}"


def test_nothing_is_fetched_from_elsewhere():
    for each in (*STATIC.glob("*.mjs"), *STATIC.glob("*.css"), STATIC / "index.html"):
        assert not re.findall(r"https?://|dangerouslySetInnerHTML|innerHTML|\beval\b", each.read_text()), each.name


def test_the_path_of_the_files_changes_with_their_content():
    assets = load_assets(SignIn.TOKEN)
    assert b'data-sign-in="token"' in assets.index
    assert f"assets/{assets.version}/main.mjs".encode() in assets.index
    assert {"main.mjs", "page.css", "vendor/preact.mjs"} <= assets.files.keys()
