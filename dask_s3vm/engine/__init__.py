"""Rows that stay put, and rounds over them. The only part that knows dask.distributed.

Read in this order:

blocks    what users hand in, one block at a time, made canonical and checked
plan      where the rows are cut into shards: a property of the data alone
shard     one shard: its rows, its labels, its per-row state
tree      the fixed order in which partial results are added
group     the shards of one process and the threads that run over them
operations what operations say of the row state that they use: how it is made again
protocol  what a solver sees of all this: `Engine`
local     an engine of one group in this process
cluster   an engine of one group per dask worker, each an actor
member    such a group, on its worker
calls     direct calls to these actors: an answer, or an error that says what failed
watch     waiting for a cluster that may have stopped answering
budget    how often to try again after losses
spread    which worker gets which shards: at first, after a loss, when workers join
census    which workers there are now, asked in passing
ingest    from (X, y, weights) of any type to a source: checked rows, ready to be placed
sources   rows in this process; what goes with them
placement rows on workers, and how shards find their place there
select    exact order statistics of per-row values, from rounds
computing lazy values computed where they are expected, with a watch
pool      independent pieces of work on shared data: threads, or tasks (worker_pool)
compiling kernels are compiled while rows are read
clients   which dask client is in charge
workers   the workers of a cluster: threads, memory, and do they run our version
"""
