"""`dask-s3vm train`: from files of rows to a model, in a batch job or at a terminal."""

import os
import time
from collections.abc import Mapping
from typing import Any

import click

from dask_s3vm.cli.cluster import ClusterOptions, cluster_options, running_on
from dask_s3vm.cli.config import effective, names_of, to_toml, with_config
from dask_s3vm.cli.data import (
    Rows,
    check_label_options,
    check_length,
    column_of,
    read_rows,
    separate_labels,
    training_data_options,
)
from dask_s3vm.cli.methods import MethodCommand, make_estimator, mark_of, method_options
from dask_s3vm.cli.options import Place, kernel_options, label_options, run_options
from dask_s3vm.cli.output import show, work_of
from dask_s3vm.cli.predict import ENDINGS, open_found
from dask_s3vm.cli.report import ending_of, performance_report
from dask_s3vm.cli.stopping import EXIT_CODES, BadData, check_state, closing_run, format_errors
from dask_s3vm.reports.record import RunRecord

#: Arguments that a file of options can give too.
_data_argument = click.argument("data", nargs=-1, type=Place())


def _input_options(command: Any) -> Any:
    return _data_argument(label_options(training_data_options(command)))


#: Tables of the file of `--config`.
GROUPS = {
    "data": _input_options,
    "method": method_options,
    "kernel": kernel_options,
    "run": run_options,
    "cluster": cluster_options,
}
_NOT_IN_CONFIG = ("config", "print_config")
#: Options that say nothing of what is computed: a run is repeated without them.
_NOT_REPEATED = ("resume", "dry_run", "as_json", "quiet")


@click.command(cls=MethodCommand, epilog=EXIT_CODES)
@_data_argument
@click.option(
    "--config",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Take options from a TOML file; those of the command line win.",
)
@click.option("--print-config", is_flag=True, help="Print the options as such a file, and stop.")
@method_options
@label_options
@run_options
@kernel_options
@training_data_options
@cluster_options
@click.pass_context
def train(ctx: click.Context, **given: Any) -> None:
    """Train on DATA: files of one format (see --format); several, a glob or a folder will do.

    Progress is one line on a terminal; elsewhere, a few plain lines. SIGTERM and SIGINT stop
    the run: with --checkpoint its state is kept, and --resume goes on to the same bits.
    """
    chosen = with_config(ctx, given, GROUPS, _NOT_IN_CONFIG)
    config = to_toml(effective(ctx, chosen, GROUPS, _NOT_REPEATED))
    if chosen["print_config"]:
        click.echo(config, nl=False)
        return
    if not chosen["data"]:
        raise click.UsageError("DATA is missing: name files of rows, or `data` in --config FILE")
    check_label_options(chosen)
    estimator = make_estimator(chosen, checkpoint=chosen["checkpoint"])
    _check_places(chosen)
    run = _Run(estimator, chosen)
    report = None if chosen["dry_run"] else chosen["report"]
    with RunRecord(report, config, run.say, ending_of) as record:
        with closing_run(chosen["checkpoint"]), format_errors():
            row = run.carry_out(record)
        if row is not None:
            show([row], chosen["as_json"])


def _check_places(chosen: Mapping[str, Any]) -> None:
    """Refuse outputs that could not be written, before anything is computed."""
    for option in ("model", "predict_unlabeled"):
        path = chosen[option]
        folder = os.path.dirname(path) or "." if path else "."
        if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
            flag = option.replace("_", "-")
            raise click.UsageError(f"--{flag} {path}: there is no folder {folder} to write to")
        if path and os.path.isdir(path):
            raise click.UsageError(f"--{option.replace('_', '-')} {path}: that is a folder")
    out = chosen["predict_unlabeled"]
    if out and not out.lower().endswith(ENDINGS):
        raise click.UsageError(f"--predict-unlabeled {out}: wanted the ending .csv or .npy")
    report = chosen["report"]
    if report and os.path.exists(report) and not os.path.isdir(report):
        raise click.UsageError(f"--report {report}: that is not a folder")


class _Run:
    """One training, from reading to writing."""

    def __init__(self, estimator: Any, chosen: Mapping[str, Any]) -> None:
        self._estimator = estimator
        self._chosen = chosen
        self._data = chosen["data"]

    def say(self, message: str) -> None:
        """Tell people what is going on."""
        if not self._chosen["quiet"]:
            click.echo(message, err=True)

    def carry_out(self, record: RunRecord) -> dict[str, Any] | None:
        """Read, train and write; returns what is to be shown, if it has not been."""
        from dask_s3vm import save_model

        estimator, chosen = self._estimator, self._chosen
        began = time.perf_counter()
        # labels of their own are read first: a mistake there is found at once
        y_apart = self._prepare(record)
        cluster = ClusterOptions(**{name: chosen[name] for name in names_of(cluster_options)})
        with running_on(cluster) as client, performance_report(client, record):
            record.note_cluster(client)
            rows = self._read(y_apart)
            X, y = rows
            read = time.perf_counter()
            record.facts["data"] = {"files": list(self._data), **_shape(X)}
            if chosen["dry_run"]:
                from dask_s3vm.cli.dry_run import dry_run

                dry_run(estimator, X, y, client, chosen["as_json"])
                return None
            self.say(f"training on {X.shape[0]:,} rows x {X.shape[1]:,} features")
            estimator.fit(X, y)
            trained = time.perf_counter()
            rows.attach_encoder(estimator)
            save_model(estimator, chosen["model"])
            record.history = estimator.history_
            times = {"read_s": round(read - began, 2), "train_s": round(trained - read, 2)}
            row = {
                **_shape(X),
                "objective": estimator.objective_,
                **work_of(estimator),
                "termination": estimator.termination_,
                **rows.hidden_error(estimator),
                **times,
                "model": chosen["model"],
            }
            record.facts |= {"result": row, "times": times, "fitted": _fitted(estimator)}
            self._look(X, y, record)
        return row

    def _prepare(self, record: RunRecord) -> Any:
        """Set what is left to set of the estimator, check it, and read separate labels."""
        chosen, mark, y = self._chosen, "-1", None
        if chosen["labels"] and column_of(chosen["labels"]) is None:
            y, found = separate_labels(chosen["labels"], chosen["unlabeled"], self.say)
            self._estimator.set_params(unlabeled=found)
        else:
            mark = chosen["unlabeled"] or mark
            self._estimator.set_params(unlabeled=mark_of(mark))
        self._estimator.set_params(callbacks=[record.history.append], verbose=not chosen["quiet"])
        self._estimator._validate_params()
        check_state(chosen["checkpoint"], chosen["resume"], self.say)
        parameters = self._estimator.get_params(deep=False)
        for name in ("callbacks", "verbose"):
            del parameters[name]
        record.facts |= {
            "estimator": type(self._estimator).__name__,
            "method": self._chosen["method"],
            "parameters": parameters,
        }
        return y

    def _read(self, y_apart: Any) -> Rows:
        chosen = self._chosen
        self.say(f"reading {', '.join(self._data)}")
        options = {name: chosen[name] for name in names_of(training_data_options)}
        column = column_of(chosen["labels"])
        if column is not None:
            options["label_column"] = column
        mark = self._estimator.unlabeled
        rows = read_rows(self._data, labels=y_apart is None, unlabeled=mark, **options)
        if y_apart is not None:
            check_length(y_apart, rows.X.shape[0], chosen["labels"])
            rows.y = y_apart
        if rows.y is None:
            raise BadData(
                f"{self._data[0]} has no labels: wanted an array `y` beside the rows, "
                "--label-column of a table, or --labels"
            )
        return rows

    def _look(self, X: Any, y: Any, record: RunRecord) -> None:
        """Write the labels found, and gather what a report tells of the rows."""
        from dask_s3vm.cli.rows import look_at_rows, note_rows

        out = self._chosen["predict_unlabeled"]
        if out:
            self.say(f"writing the labels found to {out}")
            with open_found(out, self._estimator.classes_) as sink:
                facts = look_at_rows(self._estimator, X, y, sink)
            self.say(f"{out}: {sink.n_rows:,} rows")
        elif record.directory is not None:
            facts = look_at_rows(self._estimator, X, y, None)
        else:
            return
        note_rows(record, self._estimator, X, y, facts)


def _shape(X: Any) -> dict[str, int]:
    return {"rows": int(X.shape[0]), "features": int(X.shape[1])}


def _fitted(estimator: Any) -> dict[str, Any]:
    """Small fitted attributes: facts of the model that are worth telling."""
    names = (
        "classes_ positive_ratio_ positive_ratio_interval_ n_iter_ n_rounds_ n_features_in_ lam_ "
        "loo_errors_ sharded_ intercept_"
    )
    return {name: getattr(estimator, name) for name in names.split() if hasattr(estimator, name)}
