"""Waiting for what must come, however slow the machine."""

import time

#: Seconds after which something is taken for lost; less than the timeout of a test, so that the
#: test can say what did not come.
LIMIT = 300


def wait_until(holds, left, seconds=LIMIT):
    """Wait until `holds()`; if that never comes, `left()` says what is instead."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, left()
        time.sleep(0.02)


def receive(pipe, process, seconds=LIMIT):
    """Wait for what a process sends, as long as there is the process."""
    wait_until(lambda: pipe.poll(0.1) or not process.is_alive(), lambda: "no answer", seconds)
    assert pipe.poll(), f"the process has ended with code {process.exitcode}"
    return pipe.recv()
