"""`dask-s3vm train`: from files of rows to a model, in a batch job or at a terminal."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click

from dask_s3vm import _config
from dask_s3vm.cli.cluster import cluster_of, cluster_options, running_on
from dask_s3vm.cli.config import config_options, effective
from dask_s3vm.cli.data import Rows, data_options, labeled_rows
from dask_s3vm.cli.first_look import check_label_column, first_look
from dask_s3vm.cli.labels import check_label_options, mark_from, separate_labels
from dask_s3vm.cli.methods import MethodCommand, make_estimator, method_options
from dask_s3vm.cli.options import (
    Place,
    add_options,
    json_option,
    kernel_options,
    label_options,
    name_options,
    option,
    quiet_option,
)
from dask_s3vm.cli.output import answers_of, check_output, show, work_of
from dask_s3vm.cli.predict import ENDINGS, open_found
from dask_s3vm.cli.report import ending_of, performance_report
from dask_s3vm.cli.stopping import EXIT_CODES, check_state, closing_run, format_errors
from dask_s3vm.exceptions import CheckpointError
from dask_s3vm.io.store import is_local
from dask_s3vm.reports.record import RunRecord

#: Options that say nothing of what is computed: a run is repeated without them.
_NOT_REPEATED = ("resume", "dry_run", "as_json", "quiet", "live")


def training_options(command: Any) -> Any:
    """Add DATA and the options that `train` and `tune` share."""
    options = [
        click.argument("data", nargs=-1, type=Place()),
        data_options,
        label_options,
        method_options,
        kernel_options,
        option("--model", type=Place(), default="model.npz", show_default=True, group="run",
               metavar="FILE", help="Model file to write."),
        option("--report", type=Place(), metavar="DIR", group="run",
               help="Folder to write history, facts and plots to; `dask-s3vm report DIR` makes a "
                    "page of it."),
        option("--checkpoint", type=Place(), metavar="DIR", group="run",
               help="Folder to save the state in, for --resume."),
        option("--resume", is_flag=True, group="run",
               help="Resume from the state in --checkpoint; without one, start from the "
                    "beginning."),
        option("--seed", type=click.IntRange(0), group="run", shown="0",
               help="Seed of all that is drawn at random: landmarks, starts, hidden labels."),
        config_options,
        json_option,
        quiet_option,
        cluster_options,
    ]  # fmt: skip
    return add_options(command, options)


@click.command(cls=MethodCommand, epilog=EXIT_CODES)
@training_options
@option(
    "--predict-unlabeled",
    type=Place(),
    group="run",
    metavar="FILE",
    help="File to write the labels found for the unlabeled rows to: .csv or .npy.",
)
@option(
    "--live",
    type=click.IntRange(0, 65535),
    group="run",
    metavar="PORT",
    help="Serve a page about the running fit on this machine, at http://127.0.0.1:PORT/s3vm; 0 "
    "takes any free port.",
)
@option(
    "--dry-run",
    is_flag=True,
    group="run",
    help="Print what the fit would need (memory, rounds, time), and stop.",
)
@click.pass_context
def train(ctx: click.Context, **chosen: Any) -> None:
    """Train a model on DATA: files of one format, a glob or a folder.

    Labels are in DATA, in a column of a table (--label) or in a file of their own (--labels). Rows
    without a label are used too. SIGTERM and SIGINT stop the run: with --checkpoint its state is
    kept, and a run with --resume ends with the same model, bit for bit.

    \b
    Examples:
      dask-s3vm train customers.csv --label bought --hold-out 0.2
      dask-s3vm train rows.svm --method da --lam 1e-4 --model model.npz
    """  # noqa: D301
    job = Job(ctx, chosen)
    if job.is_printed():
        return
    estimator = make_estimator(chosen, checkpoint=chosen["checkpoint"])
    job.check(estimator)
    report = None if chosen["dry_run"] else chosen["report"]
    with RunRecord(report, job.config, job.say, ending_of) as record:
        with (
            closing_run(chosen["checkpoint"]), format_errors(), _held_state(chosen),
            _live_page(chosen["live"], job.say),
        ):  # fmt: skip
            row = _carry_out(job, estimator, record)
        if row is not None:
            show(row, chosen["as_json"])


class Job:
    """What `train` and `tune` have in common: from options to rows.

    Parameters
    ----------
    ctx : click.Context
        Of the command.
    chosen : dict
        Values of all its options.
    """

    def __init__(self, ctx: click.Context, chosen: Mapping[str, Any]) -> None:
        self.chosen = chosen
        self.config = effective(ctx, _NOT_REPEATED)
        self._began = self._read_at = time.perf_counter()
        self._apart: Any = None
        self._mark: Any = None

    def is_printed(self) -> bool:
        """Print the options for `--print-config`; otherwise check that there is DATA."""
        if self.chosen["print_config"]:
            click.echo(self.config, nl=False)
        elif not self.chosen["data"]:
            raise click.UsageError("DATA is missing: name files of rows, or `data` in a --config")
        return bool(self.chosen["print_config"])

    def say(self, message: str) -> None:
        """Tell people what is going on."""
        if not self.chosen["quiet"]:
            click.echo(message, err=True)

    def check(self, estimator: Any) -> None:
        """Refuse options that contradict each other, and outputs that could not be written."""
        check_label_options(self.chosen)
        check_places(self.chosen)
        try:
            estimator._validate_params()
        except ValueError as error:
            raise click.UsageError(name_options(str(error))) from None

    def prepare(self, estimator: Any, record: RunRecord) -> None:
        """Look at the input before anything is started: separate labels, and the first rows."""
        chosen = self.chosen
        check_label_column(chosen["data"], chosen)
        self._mark = mark_from(chosen["unlabeled"])
        if chosen["labels"]:
            self._apart, self._mark = separate_labels(
                chosen["labels"], chosen["unlabeled"], self.say
            )
        if chosen["nworkers"] or chosen["scheduler"] or chosen["scheduler_file"]:
            first_look(chosen["data"], chosen, self._mark)
        parameters = estimator.get_params(deep=False)
        for name in ("callbacks", "verbose"):
            parameters.pop(name, None)
        record.facts |= {
            "estimator": type(estimator).__name__,
            "method": chosen["method"],
            "parameters": parameters,
        }

    @contextlib.contextmanager
    def rows(self, estimator: Any, record: RunRecord) -> Iterator[tuple[Rows, Any]]:
        """Have the rows and the client (None for threads) while the cluster is there."""
        chosen = self.chosen
        with running_on(cluster_of(chosen)) as client, performance_report(client, record):
            record.note_cluster(client)
            self.say(f"reading {', '.join(chosen['data'])}")
            rows = labeled_rows(chosen["data"], chosen, self._apart, unlabeled=self._mark)
            hiding = chosen["hide_all_but"], chosen["hold_out"], chosen["seed"] or 0
            estimator.set_params(unlabeled=rows.hide(self._mark, *hiding))
            if rows.hidden is not None:
                self.say(
                    f"{int(rows.hidden.sum()):,} labels are held out to measure the error; for a "
                    "model of all labels, train again without holding out"
                )
            self._read_at = time.perf_counter()
            record.facts["data"] = {"files": list(chosen["data"]), **shape_of(rows.X)}
            yield rows, client

    def times(self) -> dict[str, float]:
        """Seconds of reading, and of all since then."""
        now = time.perf_counter()
        return {
            "read_s": round(self._read_at - self._began, 2),
            "train_s": round(now - self._read_at, 2),
        }


def check_places(chosen: Mapping[str, Any]) -> None:
    """Refuse outputs that could not be written, before anything is computed."""
    report, out = chosen["report"], chosen.get("predict_unlabeled")
    if out and not out.lower().endswith(ENDINGS):
        raise click.UsageError(f"--predict-unlabeled {out}: wanted the ending .csv or .npy")
    if report and is_local(report) and os.path.exists(report) and not os.path.isdir(report):
        raise click.UsageError(f"--report {report}: that is not a folder")
    for name in ("model", "predict_unlabeled"):
        if chosen.get(name):
            inputs = [*chosen["data"], chosen.get("labels")]
            check_output(f"--{name.replace('_', '-')}", chosen[name], inputs=inputs)
    for name in ("report", "checkpoint"):
        if chosen[name] and not chosen.get("dry_run"):
            check_output(f"--{name}", chosen[name], is_folder=True)


@contextlib.contextmanager
def _held_state(chosen: Mapping[str, Any]) -> Iterator[None]:
    """Have --checkpoint for this run alone, and keep the state until all output is written."""
    if chosen["checkpoint"] is None or chosen["dry_run"]:
        yield
        return
    from dask_s3vm.checkpoints import check_directory, held

    check_directory(chosen["checkpoint"])
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(held(chosen["checkpoint"]))
        except CheckpointError as error:
            raise click.UsageError(f"--checkpoint {error}") from None
        yield


@contextlib.contextmanager
def _live_page(port: int | None, say: Callable[[str], None]) -> Iterator[None]:
    """Serve the page of --live."""
    if port is None:
        yield
        return
    from dask_s3vm.live.server import live_page

    with contextlib.ExitStack() as stack:
        try:
            address = stack.enter_context(live_page(port))
        except OSError as error:
            raise click.UsageError(
                f"--live {port}: {error.strerror}; 0 takes a free port"
            ) from None
        say(f"live page: {address}")
        yield


def _carry_out(job: Job, estimator: Any, record: RunRecord) -> dict[str, Any] | None:
    """Read, train and write; returns what is to be shown, if it has not been."""
    from dask_s3vm import save_model

    chosen = job.chosen
    check_state(chosen["checkpoint"], chosen["resume"], job.say)
    job.prepare(estimator, record)
    estimator.set_params(callbacks=[record.history.append], verbose=not chosen["quiet"])
    with job.rows(estimator, record) as (rows, client):
        X, y = rows
        if chosen["dry_run"]:
            from dask_s3vm.cli.dry_run import dry_run

            dry_run(estimator, X, y, client, chosen["as_json"])
            return None
        job.say(f"training on {X.shape[0]:,} rows x {X.shape[1]:,} features")
        if client is not None and _config.live():
            from dask_s3vm.live.plugin import page_address

            job.say(f"live page: {page_address(client)}")
        estimator.fit(X, y)
        times = job.times()
        rows.attach_encoder(estimator)
        save_model(estimator, chosen["model"])
        record.history = estimator.history_
        row = {
            **shape_of(X),
            **answers_of(estimator),
            "objective": estimator.objective_,
            **work_of(estimator),
            "termination": estimator.termination_,
            **rows.hidden_error(estimator),
            **times,
            "model": chosen["model"],
        }
        record.facts |= {"result": row, "times": times}
        look_at(job, estimator, rows, record)
    return row


def look_at(job: Job, estimator: Any, rows: Rows, record: RunRecord) -> None:
    """Write the labels found, and gather what a report tells of the model and the rows."""
    from dask_s3vm.cli.rows import look_at_rows, note_rows
    from dask_s3vm.reports.model import model_facts

    out = job.chosen.get("predict_unlabeled")
    X, y = rows
    if not out and record.directory is None:
        return
    if out:
        job.say(f"writing the labels found to {out}")
        with open_found(out, estimator.classes_) as sink:
            facts = look_at_rows(estimator, X, y, sink)
        job.say(f"{out}: {sink.n_rows:,} rows")
    else:
        facts = look_at_rows(estimator, X, y, None)
    record.facts["model"] = model_facts(estimator)
    note_rows(record, estimator, X, y, facts)
    if rows.hidden is not None and record.directory is not None and not estimator.facts.supervised:
        job.say("training the supervised SVM, to compare")
        alone = supervised_beside(estimator, sum(facts.labels.values())).fit(X, y)
        record.facts["supervised"] = rows.hidden_error(alone)


def supervised_beside(estimator: Any, n_labeled: int) -> Any:
    """Return the supervised SVM to compare a model with: the same kernel and regularization."""
    from dask_s3vm import L2SVM, C_to_lam

    ours, own = estimator.get_params(deep=False), L2SVM().get_params(deep=False)
    told = ("callbacks", "verbose", "checkpoint", "warm_start", "probability", "tol", "max_iter")
    shared = {name: ours[name] for name in own if name in ours and name not in told}
    if "C" in ours:
        shared["lam"] = C_to_lam(ours["C"], n_labeled)
    elif shared.get("lam") is None:
        shared["lam"] = estimator.lam_
    return L2SVM(**shared)


def shape_of(X: Any) -> dict[str, int]:
    """Return the numbers of rows and columns."""
    return {"rows": int(X.shape[0]), "features": int(X.shape[1])}
