"""Rows that stay in place, and rounds over them.

A *block* is a chunk of the user's data in canonical form. A *shard* is a run of consecutive rows as
an operation sees it; a *piece* is the part of a block that goes into one shard. A *group* is the
shards of one process. A *slice* is a part of the client's rows on its way to a worker. A *share*
tells a block where the shards are cut.

The modules, in reading order. What a solver sees:

- `protocol`: the interface `Engine`: `sum` and `each` run an operation on every shard
- `operations`: how operations declare row state, and how it is restored after a loss
- `shard`: `Shard`, the rows, labels and row state that an operation works on
- `tree`: the fixed order in which the results of shards are added
- `select`: exact order statistics of per-row values

From the user's arrays to shards in this process:

- `containers`: rows of any container in one form
- `ingest`: X, y and weights of any type become a checked source
- `blocks`: canonical blocks of rows
- `mapped`: rows that stay in memory-mapped files
- `column_scale`: columns of different units, scaled while rows are placed
- `plan`: where rows are cut into shards, which depends on the data and settings, not on workers
- `sources`: rows in this process, ready to be placed
- `estimate`, `memory`: the memory that a fit needs, and what a process may use
- `local`: the engine of one process and its threads
- `lanes`: several solves at once on the same rows; `thread_lanes`: in the threads of one process
- `computing`: the current dask client, lazy values, pools of work, retries

On a cluster; these modules import `distributed`, and only work on a cluster imports them:

- `placement`: rows on workers, from blocks to shards
- `cluster`: the engine of one actor per worker, which recovers from lost workers
- `workers`: which workers there are, and which shards they get
- `calls`: direct calls to actors
- `exchange`, `peers`: long vectors that go from worker to worker; the client's side, and a worker's
- `watch`: waits that end even if the cluster stops answering
- `on_scheduler`: functions that run on the scheduler
"""
