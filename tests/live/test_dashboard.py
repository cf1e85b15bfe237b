"""The live page on the dashboard of a cluster."""

import logging
import os
import signal
import threading

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster
from waiting import wait_until

from dask_s3vm import L2SVM, S3VM, TSVM
from dask_s3vm.live import plugin
from dask_s3vm.live.plugin import TOPIC, LivePage, page_address

pytestmark = pytest.mark.usefixtures("tiny_shards", "at_once")


@pytest.fixture(scope="module")
def rows(make_rows):
    X, y = make_rows(600, 30, seed=5)
    return X, np.where(np.arange(len(y)) % 10 == 1, y, -1)  # every tenth from 0 on is empty


class Once:
    """A callback that does something at one row of a history, and keeps what came of it."""

    def __init__(self, do, at=2):
        self._do, self._at = do, at
        self.rows, self.found = 0, None

    def __call__(self, row):
        self.rows += 1
        if self.rows == self._at:
            self.found = self._do()


def waited(state_at, address, wanted):
    """State of the page once it is as `wanted`; fits of other tests are there too."""
    found = []

    def look():
        found[:] = [state_at(address)]
        return found[0]["fit"] is not None and wanted(found[0]["fit"])

    wait_until(look, lambda: found)
    return found[0]


def test_a_fit_is_seen_while_it_runs_and_when_it_is_over(client, rows, state_at, ask):
    address = page_address(client)
    seen = Once(
        lambda: (
            waited(state_at, address, lambda fit: fit["state"] == "running" and fit["points"]),
            ask(address),
        ),
        at=3,
    )
    model = TSVM(lam=0.01, positive_ratio=0.5, callbacks=[seen, lambda row: None]).fit(*rows)
    state, (status, headers, page) = seen.found
    fit = state["fit"]
    assert (fit["method"], fit["state"], fit["workers"]) == ("TSVM", "running", 2)
    assert fit["parameters"][:2] == [["lam", "0.01", "chosen"], ["positive_ratio", "0.5", "chosen"]]
    assert ["fit_intercept", "True", ""] in fit["parameters"]
    assert ["rows", "600"] in fit["facts"]
    assert ["shards", str(sum(n for _, n, _ in fit["shards"]))] in fit["facts"]
    assert "level" in fit["what"] or "labeled" in fit["what"]
    assert status == 200
    assert headers["Content-Type"].startswith("text/html")
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert len(page) < 300_000

    fit = state_at(address, fit["id"])["fit"]
    assert (fit["state"], fit["done"], fit["left"]) == ("done", 1.0, None)
    assert fit["rounds"] <= model.n_rounds_
    assert fit["points"][-1]["objective"] == model.history_[-1]["objective"]
    assert fit["points"][-1]["switches"] == sum(row["switches"] for row in model.history_)
    assert all(0.999 <= sum(shares) <= 1.001 for _, _, *shares in fit["pace"])
    assert 0.0 <= sum(fit["totals"].values()) <= 1.001 * fit["seconds"]
    events = [message for _, message in client.get_events(TOPIC) if message["id"] == fit["id"]]
    assert events[-1]["state"] == "done"
    assert [topic for topic in client.get_events() if "s3vm" in topic] == [TOPIC]


def test_two_fits_at_once_are_told_apart(client, rows, state_at):
    address, both = page_address(client), threading.Barrier(2)

    def look():
        both.wait(60)
        found = waited(
            state_at, address,
            lambda _: sum(f["state"] == "running" for f in state_at(address)["fits"]) == 2,
        )  # fmt: skip
        both.wait(60)
        return [fit["method"] for fit in found["fits"] if fit["state"] == "running"]

    seen = Once(look, at=1), Once(look, at=1)
    models = TSVM(lam=0.01, positive_ratio=0.5), L2SVM(lam=0.01)
    threads = [
        threading.Thread(target=model.set_params(callbacks=one).fit, args=rows)
        for model, one in zip(models, seen, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(seen[0].found) == sorted(seen[1].found) == ["L2SVM", "TSVM"]


def test_fits_within_a_fit_are_not_told(client, rows, state_at):
    before = {fit["id"] for fit in state_at(page_address(client))["fits"]}
    S3VM(lam=0.01, positive_ratio=0.5).fit(*rows)
    fits = [fit for fit in state_at(page_address(client))["fits"] if fit["id"] not in before]
    assert [fit["method"] for fit in fits] == ["S3VM"]


class Broken(Exception):
    pass


@pytest.mark.parametrize(("error", "state"), [(Broken, "failed"), (KeyboardInterrupt, "stopped")])
def test_a_fit_that_does_not_reach_its_end(error, state, client, rows, state_at):
    def fail():
        waited(state_at, page_address(client), lambda fit: fit["state"] == "running")
        raise error("secret words")

    with pytest.raises(error):
        L2SVM(lam=0.01, callbacks=Once(fail, at=1)).fit(*rows)
    fit = state_at(page_address(client))["fit"]
    assert fit["state"] == state
    assert fit["ending"] == ("Broken" if state == "failed" else "")
    assert "secret" not in str(fit)


def test_there_is_nothing_to_change(client, rows, ask):
    L2SVM(lam=0.01).fit(*rows)
    for path in ("", "/state.json"):
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert ask(page_address(client) + path, method)[0] == 405


def test_a_setting_switches_it_off(client, rows, state_at):
    L2SVM(lam=0.01).fit(*rows)
    before = state_at(page_address(client))["fits"]
    with dask.config.set({"s3vm.live": False}):
        L2SVM(lam=0.01).fit(*rows)
    assert len(state_at(page_address(client))["fits"]) == len(before)


@pytest.mark.parametrize("trouble", ["register_plugin", "log_event", "scheduler_info"])
def test_trouble_with_the_page_is_none_of_the_fit(trouble, client, rows, monkeypatch, caplog):
    def refuse(*args, **kwargs):
        raise RuntimeError("plug-ins are not welcome here")

    plain = L2SVM(lam=0.01).fit(*rows)
    monkeypatch.setattr(plugin, "_registered", set())
    monkeypatch.setattr(client, trouble, refuse)
    with caplog.at_level(logging.DEBUG, "dask_s3vm"):
        model = L2SVM(lam=0.01).fit(*rows)
    assert np.array_equal(model.coef_, plain.coef_)
    said = [record for record in caplog.records if "live page" in record.message]
    assert [record.levelname for record in said] == ["DEBUG"]


def test_rows_of_a_history_that_make_no_sense_are_left_out(client, rows, monkeypatch, state_at):
    def stumble(value):
        raise ValueError("what is this?")

    monkeypatch.setattr("dask_s3vm.live.publisher._plain", stumble)
    L2SVM(lam=0.01).fit(*rows)
    fit = state_at(page_address(client))["fit"]
    assert fit["state"] == "done"
    assert fit["points"] == []


def test_a_scheduler_without_a_dashboard_gets_no_page(client, rows, monkeypatch):
    monkeypatch.setattr(plugin, "_registered", set())
    monkeypatch.setattr(client, "scheduler_info", lambda: {"services": {}})
    registered = []
    monkeypatch.setattr(client, "register_plugin", registered.append)
    L2SVM(lam=0.01).fit(*rows)
    assert registered == []


def test_the_prefix_of_the_dashboard_is_kept(rows, state_at):
    with (
        LocalCluster(
            n_workers=1, processes=False, dashboard_address=":0",
            scheduler_kwargs={"http_prefix": "/team/dask"},
        ) as cluster,
        Client(cluster) as own,
    ):  # fmt: skip
        L2SVM(lam=0.01).fit(*rows)
        port = own.scheduler_info()["services"]["dashboard"]
        state = state_at(f"http://127.0.0.1:{port}/team/dask/s3vm")
        assert state["fit"]["method"] == "L2SVM"


def test_a_page_that_is_there_is_not_added_again(client, rows, state_at, ask):
    L2SVM(lam=0.01).fit(*rows)
    before = len(state_at(page_address(client))["fits"])
    client.register_plugin(LivePage())
    with Client(client.scheduler.address, set_as_default=False) as other:
        assert page_address(other) is not None
        with dask.config.set(scheduler=other):
            L2SVM(lam=0.01).fit(*rows)
    assert len(state_at(page_address(client))["fits"]) == before + 1


@pytest.mark.cluster
def test_a_lost_worker_is_told(rows, state_at):
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as own,
    ):
        address = page_address(own)

        def kill():
            waited(state_at, address, lambda fit: len(fit["shards"]) == 2)
            os.kill(min(own.run(os.getpid).values()), signal.SIGKILL)

        TSVM(lam=0.01, positive_ratio=0.5, callbacks=Once(kill)).fit(*rows)
        fit = state_at(address)["fit"]
        texts = [text for _, text in fit["remarks"]]
        assert fit["losses"] == 1
        assert any("is gone, and" in text for text in texts)
        assert any("placed again" in text for text in texts)
        assert ["shards", str(sum(n for _, n, _ in fit["shards"]))] in fit["facts"]


def test_many_fits_do_not_fill_the_event_log(client, rows):
    L2SVM().fit(*rows)  # the page is there
    _, message = client.get_events(TOPIC)[-1]
    for _ in range(plugin.KEPT + 50):
        client.log_event(TOPIC, message)
    client.log_event(TOPIC, message | {"rounds": 12345})
    kept = client.get_events(TOPIC)
    assert len(kept) == plugin.KEPT
    assert kept[-1][1]["rounds"] == 12345, "the last ones stay"
