r"""Start a cluster over SSH, train on it, and end it: the client stays here.

    pip install asyncssh
    DASK_CONFIG=/etc/s3vm-tls/dask.yaml python cluster/ssh/train.py rows.svm \
        --host node1 --host node1 --host node2 --remote-python /opt/s3vm/bin/python

The first host gets the scheduler, each further one a worker (name the first twice to have both).
SSH logs in by key, and to hosts in known_hosts only. With certificates in dask's configuration
(cluster/tls/make_certificates.py; the same paths on all hosts), all traffic is TLS.
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
    """One worker process per host, with many threads; see cluster/README.md."""
    secure = bool(dask.config.get("distributed.comm.tls.ca-file"))
    common = {
        "protocol": "tls://" if secure else "tcp://",
        "interface": options.interface,
        "dashboard_address": "127.0.0.1:0",  # plain HTTP: stays on its host
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
    found = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    found.add_argument("rows", help="file that all hosts see, 0 as label of unlabeled rows")
    found.add_argument("--host", action="append", required=True, help="repeat; first: scheduler")
    found.add_argument("--remote-python", default=sys.executable, help="default: as here")
    found.add_argument("--threads", type=int, help="per worker; default: cores of its host")
    found.add_argument("--memory", default="auto", help="per worker")
    found.add_argument("--interface", help="network between the hosts: ib0, ...")
    found.add_argument("--port", type=int, default=22, help="of the SSH servers")
    found.add_argument("--identity", help="private key file; default: those of SSH")
    found.add_argument("--known-hosts", help="default: ~/.ssh/known_hosts")
    found.add_argument("--lam", type=float, default=1e-3)
    found.add_argument("--model", default="model.npz")
    return found


if __name__ == "__main__":
    main()
