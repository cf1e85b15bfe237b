"""Hosts of their own for workers: network namespaces, whose links can be cut or slowed."""

import ctypes
import itertools
import os
import shutil
import subprocess

#: Namespaces of one process of tests do not collide with those of another.
_numbers = itertools.count()


def enter(host):
    """Move this thread, and what it starts, to a host."""
    with open(f"/run/netns/{host}") as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), 0) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {host}")


def permitted():
    """Whether this process may make hosts."""
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
        return False
    name = f"s3vm{os.getpid()}try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if made.returncode == 0:
        _run("ip", "netns", "del", name)
    return made.returncode == 0


class Hosts:
    """A bridge, with this process on it, and a new host for whoever asks."""

    def __init__(self):
        self._id = f"s{os.getpid() % 100000}x{next(_numbers)}"
        self._net = f"10.{100 + os.getpid() % 100}"
        self.address = f"{self._net}.0.1"
        self._hosts = []
        _run("ip", "link", "add", self._id, "type", "bridge")
        _run("ip", "addr", "add", f"{self.address}/16", "dev", self._id)
        _run("ip", "link", "set", self._id, "up")

    def add(self):
        """Return the name and the address of another host."""
        number = len(self._hosts) + 2
        name, address = f"{self._id}h{number}", f"{self._net}.{number // 256}.{number % 256}"
        self._hosts.append(name)
        _run("ip", "netns", "add", name)
        _run("ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        _run("ip", "link", "set", name, "master", self._id, "up")
        inside = ["ip", "netns", "exec", name, "ip"]
        _run(*inside, "addr", "add", f"{address}/16", "dev", "eth0")
        _run(*inside, "link", "set", "lo", "up")
        _run(*inside, "link", "set", "eth0", "up")
        return name, address

    def cut(self, host):
        """Drop all packets of a host from now on."""
        _run("ip", "link", "set", host, "down")

    def join(self, host):
        """Take it back: what a host says at its end must be heard."""
        _run("ip", "link", "set", host, "up")
        subprocess.run(
            ["tc", "qdisc", "del", "dev", host, "root"], capture_output=True, check=False
        )

    def slow(self, host):
        """Let through 2 Mbit/s of what is sent to a host."""
        _run(*f"tc qdisc replace dev {host} root tbf rate 2mbit burst 32kbit latency 1s".split())

    def close(self):
        """Remove everything."""
        for name in self._hosts:
            subprocess.run(["ip", "link", "del", name], capture_output=True, check=False)
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        _run("ip", "link", "del", self._id)


def _run(*words):
    subprocess.run(words, check=True, capture_output=True)
