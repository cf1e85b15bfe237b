"""The live page as a file: small, on its own, and without a place for texts of others."""

import base64
import hashlib
import re

from dask_s3vm.live.page import HEADERS, PAGE

TEXT = PAGE.decode()


def test_the_page_is_small_and_loads_nothing():
    assert len(PAGE) < 300_000
    found = set(re.findall(r"https?://[^\"' )]+", TEXT))
    assert found == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"([^\"]*)\"", TEXT) == [
        "data:,"
    ]
    assert "@import" not in TEXT
    assert "url(" not in TEXT


def test_its_script_writes_texts_as_texts():
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "srcdoc",
    ):
        assert word not in TEXT


def test_the_policy_allows_this_script_and_style_alone():
    policy = HEADERS["Content-Security-Policy"]
    for tag in ("script", "style"):
        (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", TEXT, re.DOTALL)
        code = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{code}'" in policy
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert " style=" not in TEXT  # the policy forbids it
    assert not re.findall(r"\son\w+=", TEXT)
