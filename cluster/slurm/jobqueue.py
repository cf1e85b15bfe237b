"""Train on workers that are SLURM jobs, with dask-jobqueue; the client runs here.

    pip install dask-jobqueue
    python cluster/slurm/jobqueue.py rows.svm --jobs 4 --threads 16 --memory 32GiB

Traffic is encrypted with certificates made for this run, in a folder that all nodes must see.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from dask_jobqueue import SLURMCluster
from distributed import Client, Security

from dask_s3vm import TSVM, save_model
from dask_s3vm.io import read_data

MAKER = Path(__file__).resolve().parents[1] / "tls" / "make_certificates.py"


def main():
    options = parser().parse_args()
    with (
        tempfile.TemporaryDirectory(prefix=".s3vm-tls-", dir=options.shared) as folder,
        cluster_of(options, security_in(Path(folder) / "tls")) as cluster,
        Client(cluster) as client,
    ):
        cluster.scale(jobs=options.jobs)
        client.wait_for_workers(options.jobs, timeout=options.wait)
        print(f"{options.jobs} workers at {cluster.scheduler_address}", file=sys.stderr)
        X, y = read_data(options.rows)
        model = TSVM(lam=options.lam, unlabeled=0).fit(X, y)
    save_model(model, options.model)
    print(f"objective {model.objective_:.9g}, {model.n_iter_} Newton steps, {model.termination_}")


def cluster_of(options, security):
    """Make a cluster of one worker per job; a worker ends itself before its time limit."""
    return SLURMCluster(
        queue=options.queue,
        account=options.account,
        cores=options.threads,
        processes=1,
        memory=options.memory,
        walltime=options.walltime,
        python=sys.executable,
        local_directory="/tmp",
        protocol="tls://",
        security=security,
        # the web pages of dask are plain HTTP: available on their host only
        scheduler_options={"dashboard_address": "127.0.0.1:0"},
        worker_extra_args=["--dashboard-address", "127.0.0.1:0", "--lifetime", options.lifetime],
        job_extra_directives=["--output=s3vm-worker-%j.log"],
        interface=options.interface,
    )


def security_in(folder):
    """Make the certificates of this run."""
    command = [sys.executable, str(MAKER), str(folder), "--days", "30"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (folder / "ca-key.pem").unlink()  # no further certificate is needed
    files = {
        f"tls_{role}_{kind}": str(folder / f"{role}{end}.pem")
        for role in ("scheduler", "worker", "client")
        for kind, end in (("cert", ""), ("key", "-key"))
    }
    return Security(require_encryption=True, tls_ca_file=str(folder / "ca.pem"), **files)


def parser():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("rows", help="file that all nodes see; label 0 marks unlabeled rows")
    options.add_argument("--lam", type=float, default=1e-3)
    options.add_argument("--model", default="model.npz")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--threads", type=int, default=2, help="threads per job")
    options.add_argument("--memory", default="4GiB", help="memory per job")
    options.add_argument("--walltime", default="01:00:00")
    options.add_argument("--lifetime", default="55m", help="a little less than --walltime")
    options.add_argument("--wait", type=float, default=600, help="seconds to wait for the jobs")
    options.add_argument("--shared", default=".", help="folder that all nodes see")
    options.add_argument("--interface", help="network interface between the nodes, such as ib0")
    options.add_argument("--queue")
    options.add_argument("--account")
    return options


if __name__ == "__main__":
    main()
