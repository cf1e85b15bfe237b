"""What the documents say is what happens."""

import importlib
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

import dask_s3vm
from dask_s3vm.cli import main

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "docs"))

from blocks import BlockError, find_blocks, run_page  # noqa: E402

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAPERS = ROOT / "examples" / "papers" / "README.md"
DOCUMENTS = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "cluster" / "README.md", PAPERS]


def name_of(path):
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize(
    "page", [p for p in PAGES if any(b.runs for b in find_blocks(p))], ids=name_of
)
def test_blocks_of_a_page_run(page, tmp_path):
    for folder in ("scratch", "figures"):
        (tmp_path / folder).mkdir()
    list(run_page(page, tmp_path / "scratch", tmp_path / "figures"))


def write_page(folder, text):
    page = folder / "page.md"
    page.write_text(text)
    return page


def test_results_of_blocks(tmp_path):
    page = write_page(
        tmp_path,
        "# Title\n\n```python\nx = 20\nprint(x)\nx + 1\n```\n\n```python not-run\n1 / 0\n```\n"
        "\n```shell\necho from a shell > out.txt\n```\n\n```python warns\nimport warnings\n"
        "warnings.warn(open('out.txt').read().strip())\nx\n```\n",
    )
    results = [result.text for _, result in run_page(page, tmp_path, tmp_path)]
    assert results == ["20\n21", "", "UserWarning: from a shell\n20"]


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("```python\n1 / 0\n```\n", r"page.md:1: ZeroDivisionError"),
        ("```shell\nls no-such-file\n```\n", r"page.md:1: exit code"),
        ("```python\nimport warnings\nwarnings.warn('oh')\n```\n", "page.md:1: warnings: .*oh"),
        ("```python warns\n1\n```\n", "it should warn"),
        ("```python\nimport matplotlib.pyplot as p\np.figure()\n```\n", "alt="),
    ],
)
def test_a_block_that_fails_is_named(block, message, tmp_path):
    with pytest.raises(BlockError, match=message):
        list(run_page(write_page(tmp_path, block), tmp_path, tmp_path))


def commands(page):
    """Commands of this package in the blocks and in the text of a page, as lists of words."""
    text = page.read_text(encoding="utf-8")
    lines = [line for block in find_blocks(page) for line in block.code.split("\n")]
    lines += [code.replace("\n", " ") for code in re.findall(r"`(dask-s3vm [^`]+)`", text)]
    for line in lines:
        if line.startswith("dask-s3vm "):
            words = shlex.split(line.replace("...", ""), comments=True)[1:]
            yield words[: words.index("|")] if "|" in words else words


@pytest.mark.parametrize("page", DOCUMENTS, ids=name_of)
def test_commands_and_options_exist(page):
    for words in commands(page):
        command, path = main, []
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            name, *words = words
            path.append(name)
            command = command.get_command(click.Context(command), name)
            assert command is not None, f"{name_of(page)}: dask-s3vm {' '.join(path)}"
        options = {o for p in command.get_params(click.Context(command)) for o in p.opts}
        options |= {o for p in command.params for o in p.secondary_opts} | {"--help", "--version"}
        used = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert used <= options, f"{name_of(page)}: dask-s3vm {' '.join(path)}"


def prose(page):
    """Text of a page without code."""
    text = re.sub(
        r"^(`{3,}).*?^\1\s*$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    return re.sub(r"`[^`]*`", "code", text)


def anchors(page):
    """Anchors of the headings, as code hosts and MyST make them; with those of included pages."""
    text = page.read_text(encoding="utf-8")
    pages = [page] + [
        page.parent / name for name in re.findall(r"^```\{include\} (.*)$", text, re.M)
    ]
    text = "".join(
        re.sub(r"^(`{3,}).*?^\1\s*$", "", p.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
        for p in pages
    )
    headings = [h.replace("`", "").lower() for h in re.findall(r"^#+ (.*)$", text, re.M)]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", DOCUMENTS, ids=name_of)
def test_links_within_the_documents(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"https?:", target):
            continue
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        if path.parent == ROOT / "docs" / "gallery":  # made by the build from a script
            path = (
                ROOT
                / "examples"
                / "gallery"
                / path.with_suffix(".py").name.replace("index", "1_moons")
            )
        assert path.exists(), f"{name_of(page)}: {target}"
        assert not anchor or anchor in anchors(path), f"{name_of(page)}: {target}"


def test_every_page_is_in_the_contents():
    contents = "\n".join(block.code for block in find_blocks(ROOT / "docs" / "index.md"))
    pages = {page.stem for page in PAGES} - {"README", "index"}
    assert pages <= set(contents.split())


def test_the_api_page_lists_the_public_names():
    listed = set(re.findall(r"^   (\w+)$", (ROOT / "docs" / "api.rst").read_text(), re.M))
    modules = ["datasets", "io", "model_selection", "plotting"]
    public = {n for n in dask_s3vm.__all__ if n not in ("__version__", "features", *modules)}
    for name in modules:
        public |= set(importlib.import_module(f"dask_s3vm.{name}").__all__)
    assert listed == public


def test_the_citation_names_this_version():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {dask_s3vm.__version__}\n" in text


def test_badges_say_what_the_package_says():
    badges = re.findall(
        r"!\[([^]]*)\]\((docs/_static/\S+\.svg)\)", (ROOT / "README.md").read_text()
    )
    titles = [re.search("<title>(.*)</title>", (ROOT / path).read_text())[1] for _, path in badges]
    package = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    begin = "Programming Language :: Python :: 3."
    pythons = ["3." + c.removeprefix(begin) for c in package["classifiers"] if c.startswith(begin)]
    assert package["requires-python"] == f">={pythons[0]}"
    assert titles == [f"python: {' | '.join(pythons)}", f"license: {package['license']}"]
    words = [f"Python {', '.join(pythons)}", f"License: {package['license']}"]
    assert [alt for alt, _ in badges] == words


def test_a_hidden_block_runs_and_its_code_is_not_shown(tmp_path):
    pytest.importorskip("myst_parser")
    (tmp_path / "index.md").write_text("# Title\n\n```python hidden\nprint(6 * 7)\n```\n")
    for name, value in (("extensions", ["myst_parser", "executed"]), ("html_theme", "basic")):
        with open(tmp_path / "conf.py", "a") as conf:
            conf.write(f"{name} = {value!r}\n")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "text", str(tmp_path)]
    path = {"PYTHONPATH": f"{ROOT / 'docs'}{os.pathsep}{ROOT}"}
    subprocess.run([*command, str(tmp_path / "out")], check=True, env=os.environ | path)
    text = (tmp_path / "out" / "index.txt").read_text()
    assert "42" in text
    assert "print" not in text


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path):
    pytest.importorskip("sphinx_gallery")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "-b",
        "html",
        str(ROOT / "docs"),
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loads = re.compile(
        r"""<(?:script|img|iframe)[^>]+src="(?:https?:)?//|<link[^>]+href="(?:https?:)?//"""
    )
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        assert not loads.search(page.read_text(encoding="utf-8")), page
    for style in tmp_path.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", style.read_text("utf-8")), (
            style
        )
