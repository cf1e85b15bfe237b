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
