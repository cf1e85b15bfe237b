#!/usr/bin/env bash
# A cluster of four hosts on one machine: scheduler, two workers and a client, each in a network
# namespace with its own address, with TLS between all of them. Trains on the cluster and in one
# process, and compares the models bit for bit. Needs root and iproute2; removes everything at the end.
#
#   sudo cluster/namespaces.sh                 # PYTHON=.venv/bin/python sets the Python
#   sudo cluster/namespaces.sh --only-scheduler  # packets between client and workers are dropped
#
# Exit code: 0 the models are equal, 77 namespaces are not permitted here, otherwise failed.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-python3}
only_scheduler=
[[ ${1:-} == --only-scheduler ]] && only_scheduler=yes

id=s3vm$$ # unique, so that several runs do not collide
net=10.$((100 + $$ % 100)).$(($$ / 100 % 250))
declare -A address=([scheduler]=$net.1 [worker1]=$net.2 [worker2]=$net.3 [client]=$net.4)
hosts=(scheduler worker1 worker2 client)
folder=$(mktemp -d)

in_host() { # in_host NAME COMMAND...: run a command on a host
    local name=$1
    shift
    ip netns exec "$id-$name" "$@"
}

inhabitants() { # processes on the hosts of this run
    for name in "${hosts[@]}"; do ip netns pids "$id-$name" 2>/dev/null; done
}

tear_down() {
    local code=$? process
    set +e
    for signal in TERM KILL; do # a namespace exists as long as a process in it
        for process in $(inhabitants); do kill -"$signal" "$process" 2>/dev/null; done
        for _ in {1..40}; do
            [[ -z $(inhabitants) ]] && break
            sleep 0.25
        done
    done
    for number in "${!hosts[@]}"; do
        ip link del "${id}v$number" 2>/dev/null
        ip netns del "$id-${hosts[$number]}" 2>/dev/null
    done
    ip link del "$id" 2>/dev/null
    if [[ $code -ne 0 && $code -ne 77 ]]; then tail -n 15 "$folder"/*.log >&2; fi
    rm -rf "$folder"
    exit "$code"
}
trap tear_down EXIT
trap 'exit 143' TERM INT

if ! command -v ip >/dev/null || ! ip link add "$id" type bridge 2>/dev/null; then
    echo "network namespaces need root and iproute2" >&2
    exit 77
fi
ip link set "$id" up
for number in "${!hosts[@]}"; do
    name=${hosts[$number]}
    ip netns add "$id-$name" || exit 77
    ip link add "${id}v$number" type veth peer name eth0 netns "$id-$name"
    ip link set "${id}v$number" master "$id" up
    in_host "$name" ip address add "${address[$name]}/24" dev eth0
    in_host "$name" ip link set eth0 up
    in_host "$name" ip link set lo up
done
if [[ -n $only_scheduler ]]; then # answers of the workers are dropped, as by a firewall
    for name in worker1 worker2; do
        in_host "$name" ip route add blackhole "${address[client]}/32"
    done
fi

"$python" "$here/tls/make_certificates.py" "$folder/tls" --days 1 "${address[@]/#/--host=}"
tls() { # options of a role
    echo --tls-ca-file "$folder/tls/ca.pem" --tls-cert "$folder/tls/$1.pem" \
        --tls-key "$folder/tls/$1-key.pem"
}

# small shards: several of them on both workers, though there are few rows; short vectors are
# exchanged among workers, as long ones are
export DASK_S3VM__LOCAL_BYTES=0 DASK_S3VM__SHARD_BYTES=16KiB DASK_S3VM__EXCHANGE_BYTES=0
export DASK_S3VM__CONNECT_TIMEOUT=${DASK_S3VM__CONNECT_TIMEOUT:-15s}

"$python" - "$folder/rows.svm" <<'PYTHON'
import random
import sys

random.seed(0)
plane = [random.gauss(0, 1) for _ in range(2000)]
with open(sys.argv[1], "w") as file:
    for _ in range(400):
        row = {column: random.random() for column in sorted(random.sample(range(2000), 60))}
        label = 1 if sum(plane[column] * value for column, value in row.items()) > 0 else -1
        entries = " ".join(f"{column + 1}:{value:.6f}" for column, value in row.items())
        print(label, entries, file=file)
PYTHON

# shellcheck disable=SC2046  # options are words without blanks
in_host scheduler "$python" -m dask scheduler --protocol tls --host "${address[scheduler]}" \
    --port 8786 --no-dashboard $(tls scheduler) >"$folder/scheduler.log" 2>&1 &
for name in worker1 worker2; do
    # shellcheck disable=SC2046
    in_host "$name" "$python" -m dask worker "tls://${address[scheduler]}:8786" --protocol tls \
        --host "${address[$name]}" --nthreads 1 --no-nanny --no-dashboard \
        --local-directory "$folder/$name" $(tls worker) >"$folder/$name.log" 2>&1 &
    done

s3vm=("$python" -c "from dask_s3vm.cli import main; main()")
remote=(--scheduler "tls://${address[scheduler]}:8786")
for _ in {1..240}; do # until both workers are registered
    [[ $(grep -c "Register worker" "$folder/scheduler.log" || true) -ge 2 ]] && break
    sleep 0.5
done
train=(train "$folder/rows.svm" --method l2svm --lam 1e-3 --blocksize "64 kB" --json --quiet)

# shellcheck disable=SC2046
in_host client "${s3vm[@]}" info "${remote[@]}" $(tls client) | tee "$folder/info.log"
[[ $(grep -c "^ *worker" "$folder/info.log") -eq 2 ]]
# shellcheck disable=SC2046
in_host client "${s3vm[@]}" "${train[@]}" "${remote[@]}" $(tls client) --model "$folder/remote.npz"
code=0
in_host client "${s3vm[@]}" "${train[@]}" "${remote[@]}" --model "$folder/none.npz" \
    2>"$folder/refused.log" || code=$?
if [[ $code -ne 69 ]]; then
    echo "a client without a certificate ended with $code, not 69" >&2
    exit 1
fi

"$python" - "$folder" <<'PYTHON'
import sys

import dask

from dask_s3vm import L2SVM, load_model
from dask_s3vm.io import read_data

dask.config.set(scheduler="synchronous")
local = L2SVM(lam=1e-3).fit(*read_data(f"{sys.argv[1]}/rows.svm"))
remote = load_model(f"{sys.argv[1]}/remote.npz")
for name in ("coef_", "intercept_"):
    assert getattr(remote, name).tobytes() == getattr(local, name).tobytes(), name
print(f"the same model bit for bit, objective {local.objective_:.9g}")
PYTHON
