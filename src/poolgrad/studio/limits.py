"""The numbers the studio refuses beyond; the page shows the same ones (`GET /api/catalogue`)."""

from __future__ import annotations

GRAPH_BYTES = 1 << 20
UPLOAD_BYTES = 64 << 20
BLOCKS = 256
WIRES = 1024
RANK = 6
ELEMENTS = 4 << 20
RUN_BYTES = 256 << 20
RUN_SECONDS = 10.0
CSV_ELEMENTS = 1 << 20
#: Runs that may wait for the worker; a page has one in flight, so this is eight impatient pages.
WAITING_RUNS = 8
#: Listed windows up to this many are sent with a result; a longer list would outweigh the tensor itself.
LISTED_WINDOWS = 16384
#: What the server keeps between runs: one full run of results beside the one being made.
CACHE_BYTES = 2 * RUN_BYTES
CACHE_ENTRIES = 16 * BLOCKS

AS_JSON = {
    "graph_bytes": GRAPH_BYTES,
    "upload_bytes": UPLOAD_BYTES,
    "blocks": BLOCKS,
    "wires": WIRES,
    "rank": RANK,
    "elements": ELEMENTS,
    "run_bytes": RUN_BYTES,
    "run_seconds": RUN_SECONDS,
    "csv_elements": CSV_ELEMENTS,
}


def mebibytes(count: int) -> str:
    """``count`` bytes in words: ``"1.5 MiB"``."""
    return f"{count / (1 << 20):,.1f} MiB"
