"""The limit holds in every thread, and the number of threads is restored afterwards."""

import threading

import threadpoolctl

from dask_s3vm.numerics.linalg import one_blas_thread


def blas_threads():
    return [
        lib["num_threads"] for lib in threadpoolctl.threadpool_info() if lib["user_api"] == "blas"
    ]


def test_overlapping_threads_share_the_limit_and_the_last_one_lifts_it():
    before = blas_threads()
    seen, first_in, second_out = [], threading.Event(), threading.Event()

    def first():
        with one_blas_thread():
            first_in.set()
            second_out.wait()
            seen.append(blas_threads())

    thread = threading.Thread(target=first)
    thread.start()
    first_in.wait()
    try:
        with one_blas_thread():
            seen.append(blas_threads())
    finally:
        second_out.set()
        thread.join()
    assert seen == [[1] * len(before)] * 2
    assert blas_threads() == before


def test_the_limit_holds_in_threads_that_come_after_another_one():
    """threadpoolctl lets one thread alone set the number while that is alive."""
    before, seen = blas_threads(), []

    def use():
        with one_blas_thread():
            seen.append(blas_threads())

    use()
    for _ in range(2):
        thread = threading.Thread(target=use)
        thread.start()
        thread.join()
    assert seen == [[1] * len(before)] * 3
    assert blas_threads() == before
