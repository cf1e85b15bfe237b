"""KDD Cup 1999: the raw csv files of network connections, as sparse rows and two classes."""

from collections.abc import Sequence
from typing import Any, Literal

import dask.array as da
import numpy as np

from dask_s3vm.features.table_encoder import TableEncoder
from dask_s3vm.io.sources import UrlPath
from dask_s3vm.io.tables import read_table

__all__ = ["COLUMNS", "LABELS", "read_kdd99"]


def _split(words: str) -> tuple[str, ...]:
    return tuple(words.split())


#: Columns of the files, the label last.
COLUMNS = _split(
    "duration protocol_type service flag src_bytes dst_bytes land wrong_fragment urgent hot "
    "num_failed_logins logged_in num_compromised root_shell su_attempted num_root "
    "num_file_creations num_shells num_access_files num_outbound_cmds is_host_login "
    "is_guest_login count srv_count serror_rate srv_serror_rate rerror_rate srv_rerror_rate "
    "same_srv_rate diff_srv_rate srv_diff_host_rate dst_host_count dst_host_srv_count "
    "dst_host_same_srv_rate dst_host_diff_srv_rate dst_host_same_src_port_rate "
    "dst_host_srv_diff_host_rate dst_host_serror_rate dst_host_srv_serror_rate "
    "dst_host_rerror_rate dst_host_srv_rerror_rate label"
)

#: All labels of the training files and of the labeled test file.
LABELS = tuple(
    f"{word}."
    for word in _split(
        "normal apache2 back buffer_overflow ftp_write guess_passwd httptunnel imap ipsweep land "
        "loadmodule mailbomb mscan multihop named neptune nmap perl phf pod portsweep processtable "
        "ps rootkit saint satan sendmail smurf snmpgetattack snmpguess spy sqlattack teardrop "
        "udpstorm warezclient warezmaster worm xlock xsnoop xterm"
    )
)

_CATEGORIES = {
    "protocol_type": _split("icmp tcp udp"),
    "service": _split(
        "IRC X11 Z39_50 aol auth bgp courier csnet_ns ctf daytime discard domain domain_u echo "
        "eco_i ecr_i efs exec finger ftp ftp_data gopher harvest hostnames http http_2784 http_443 "
        "http_8001 icmp imap4 iso_tsap klogin kshell ldap link login mtp name netbios_dgm "
        "netbios_ns netbios_ssn netstat nnsp nntp ntp_u other pm_dump pop_2 pop_3 printer private "
        "red_i remote_job rje shell smtp sql_net ssh sunrpc supdup systat telnet tftp_u tim_i time "
        "urh_i urp_i uucp uucp_path vmnet whois"
    ),
    "flag": _split("OTH REJ RSTO RSTOS0 RSTR S0 S1 S2 S3 SF SH"),
}
_BINARY = ("land", "logged_in", "is_host_login", "is_guest_login")


def read_kdd99(
    urlpath: UrlPath,
    *,
    positive: str | Sequence[str] | None = None,
    binary: Literal["numbers", "indicators"] = "numbers",
    scale: str = "std",
    encoder: TableEncoder | None = None,
    label: Literal[False] | None = None,
    blocksize: int | str = "16MiB",
    block: Literal["gcxs", "scipy"] = "gcxs",
    dtype: Any = np.float64,
) -> tuple[da.Array, da.Array | None, TableEncoder]:
    """Read raw KDD Cup 1999 files (``kddcup.data``, ``.gz``): 41 columns, and mostly a label.

    The 38 columns of numbers are divided by their standard deviation over all files, so zeros stay
    zeros; the 3 columns of words become indicators: 3 protocols, 71 services, 11 states. That makes
    123 features, the same for any choice of files, as all categories of the data set are known
    beforehand (an unheard-of one would be added).

    Sindhwani and Keerthi (Tables 1.1 and 1.7) have 127 features, 17.3 of which are not zero. The
    documentation of the data calls four of the numbers symbols: with ``binary="indicators"``, which
    makes two features of each of them, there are 127.

    Parameters
    ----------
    urlpath : str, path or list of these
        The files. Those of one call share categories and scale: give training and test files
        together, or the encoder of the first for the second.
    positive : str or sequence of str, optional
        Labels of class 1. By default all but ``normal.``: 1 is an attack, 0 a normal connection.
    binary : {"numbers", "indicators"}
        What to make of the columns that are 0 or 1: land, logged_in, is_host_login,
        is_guest_login.
    scale : str
        See `TableEncoder`. "unit" leaves numbers with rare, huge values close to 0 elsewhere.
    encoder, blocksize, block, dtype
        See `read_table`.
    label : False, optional
        Leave labels alone, even if there are some.

    Returns
    -------
    X : dask.array.Array of shape (n_rows, n_features)
        The connections.
    y : dask.array.Array of shape (n_rows,) or None
        1 and 0; None for files without labels.
    encoder : TableEncoder
        What encodes other files alike.

    Raises
    ------
    TableError
        If a row has another number of fields, a number is none, or a label is not one of `LABELS`,
        with file and line.
    """
    if binary not in ("numbers", "indicators"):
        raise ValueError(f"binary is {binary!r}, wanted 'numbers' or 'indicators'")
    common: dict[str, Any] = {
        "format": "csv", "header": False, "blocksize": blocksize, "block": block
    }  # fmt: skip
    attacks = [word for word in LABELS if word != "normal."]
    target: dict[str, Any] = {
        "label": "label",
        "positive": attacks if positive is None else positive,
        "classes": LABELS,
    }
    if label is False:
        target = {"label": False}
    if encoder is not None:
        return read_table(urlpath, encoder=encoder, **(target if label is False else {}), **common)
    words = dict(_CATEGORIES)
    if binary == "indicators":
        words |= dict.fromkeys(_BINARY, ("0", "1"))
    X, y, encoder = read_table(
        urlpath,
        names=COLUMNS,
        categorical=list(words),
        numeric=[name for name in COLUMNS[:-1] if name not in words],
        known=words,
        scale=scale,
        dtype=dtype,
        **target,
        **common,
    )
    assert encoder.reading_ is not None, "the reader has just set it"
    encoder.reading_["format"] = "kdd99"
    return X, y, encoder
