"""Small fits that the live page hears of at once."""

import json
import urllib.request

import pytest


@pytest.fixture
def at_once(monkeypatch):
    """Have messages sent from the first moment on, and often."""
    monkeypatch.setattr("dask_s3vm.live.publisher.FIRST", 0.0)
    monkeypatch.setattr("dask_s3vm.live.publisher.EVERY", 0.1)
    monkeypatch.setattr("dask_s3vm.live.publisher.SPAN", 0.0)
    monkeypatch.setattr("dask_s3vm.live.publisher.LAST", 60.0)


@pytest.fixture
def ask():
    """GET an address: (status, headers, text)."""

    def get(address, method="GET", **headers):
        request = urllib.request.Request(address, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, ""

    return get


@pytest.fixture
def state_at(ask):
    """State of the page at an address."""

    def get(address, chosen=""):
        status, headers, text = ask(f"{address}/state.json?fit={chosen}")
        assert status == 200
        assert headers["Content-Type"] == "application/json"
        return json.loads(text)

    return get
