r"""Start a cluster over SSH, train on it, and end it; the client runs here.

    pip install asyncssh
    DASK_CONFIG=/etc/s3vm-tls/dask.yaml python cluster/ssh/train.py rows.svm \
        --host node1 --host node1 --host node2 --remote-python /opt/s3vm/bin/python

The first host runs the scheduler, each further host a worker (give the first one twice for both).
SSH logs in with a key, and only to hosts in known_hosts. With certificates in dask's configuration
(cluster/tls/make_certificates.py; the same paths on all hosts), all traffic is encrypted.
"""

import argparse
import sys

import dask
from distributed import Client, SSHCluster

from dask_s3vm import TSVM, save_model
from dask_s3vm.io import read_data


def main():
    options = parser().parse_args()
    with cluster_of(options) as cluster, Client(cluster) as client:
        client.wait_for_workers(len(options.host) - 1, timeout=120)
        print(f"{len(options.host) - 1} workers at {cluster.scheduler_address}", file=sys.stderr)
        X, y = read_data(options.rows)
        model = TSVM(lam=options.lam, unlabeled=0).fit(X, y)
    save_model(model, options.model)
    print(f"objective {model.objective_:.9g}, {model.n_iter_} Newton steps, {model.termination_}")


def cluster_of(options):
    """Make a cluster of one worker process per host; see cluster/README.md."""
    secure = bool(dask.config.get("distributed.comm.tls.ca-file"))
    common = {
        "protocol": "tls://" if secure else "tcp://",
        "interface": options.interface,
        "dashboard_address": "127.0.0.1:0",  # plain HTTP: available on its host only
    }
    connect = {"port": options.port}
    if options.identity:
        connect["client_keys"] = [options.identity]
    if options.known_hosts:
        connect["known_hosts"] = options.known_hosts
    return SSHCluster(
        options.host,
        connect_options=connect,
        scheduler_options={**common, "port": 0},
        worker_options={**common, "nthreads": options.threads, "memory_limit": options.memory},
        remote_python=options.remote_python,
    )


def parser():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("rows", help="file that all hosts see; label 0 marks unlabeled rows")
    options.add_argument(
        "--host",
        action="append",
        required=True,
        help="host; repeatable, the first is the scheduler",
    )
    options.add_argument(
        "--remote-python",
        default=sys.executable,
        help="Python of the hosts [default: the same path as here]",
    )
    options.add_argument(
        "--threads", type=int, help="threads per worker [default: cores of the host]"
    )
    options.add_argument("--memory", default="auto", help="memory per worker")
    options.add_argument("--interface", help="network interface between the hosts, such as ib0")
    options.add_argument("--port", type=int, default=22, help="port of the SSH servers")
    options.add_argument("--identity", help="private key file [default: those of SSH]")
    options.add_argument("--known-hosts", help="file of known hosts [default: ~/.ssh/known_hosts]")
    options.add_argument("--lam", type=float, default=1e-3)
    options.add_argument("--model", default="model.npz")
    return options


if __name__ == "__main__":
    main()
