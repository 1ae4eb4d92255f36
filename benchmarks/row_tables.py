"""A table with a row for each node, visited whole at every step, in the engines that shard such tables.

`OMP_NUM_THREADS=1 python -m benchmarks.row_tables` takes the kernels of TorchRec too, if
`pip install --no-deps fbgemm-gpu-cpu==1.8.0` (for torch 2.13) was run.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import timeit
from collections.abc import Callable

import torch
from torch import distributed

from benchmarks.table import markdown

ROWS, COLUMNS, STEPS = 1_000_000, 4, 6  # free posteriors in two dimensions


def _fastest(step: Callable[[], None]) -> float:
    """Wall seconds of a step, the least of some."""
    return min(timeit.repeat(step, number=1, repeat=STEPS))


def parameter() -> float:
    """As horoball has it: a parameter, and Adam."""
    table = torch.nn.Parameter(torch.randn(ROWS, COLUMNS))
    optimizer = torch.optim.Adam([table], fused=True)

    def step() -> None:
        optimizer.zero_grad()
        (1.0 * table).sum().backward()
        optimizer.step()

    return _fastest(step)


def fbgemm() -> float:
    """TorchRec's kernels; of their optimizers, Adam is not made for the CPU, and row-wise Adagrad is."""
    ops = importlib.import_module("fbgemm_gpu.split_table_batched_embeddings_ops_training")
    common = importlib.import_module("fbgemm_gpu.split_table_batched_embeddings_ops_common")
    table = ops.SplitTableBatchedEmbeddingBagsCodegen(
        [(ROWS, COLUMNS, common.EmbeddingLocation.HOST, ops.ComputeDevice.CPU)],
        optimizer=ops.OptimType.EXACT_ROWWISE_ADAGRAD,
    )
    everything, bounds = torch.arange(ROWS), torch.arange(ROWS + 1)

    def step() -> None:
        table(everything, bounds).sum().backward()

    return _fastest(step)


def dtensor() -> float:
    """Rows sharded over the ranks that were started: gathered, their gradients scattered, and Adam."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    distributed.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
    table = torch.nn.Parameter(distribute_tensor(torch.randn(ROWS, COLUMNS), mesh, [Shard(0)]))
    optimizer = torch.optim.Adam([table])

    def step() -> None:
        optimizer.zero_grad()
        (1.0 * table.full_tensor()).sum().backward()  # type: ignore[attr-defined]
        optimizer.step()

    seconds = _fastest(step)
    distributed.destroy_process_group()
    return seconds


def main() -> None:
    """All of them, or the share of a rank."""
    torch.set_num_threads(1)
    if "RANK" in os.environ:
        seconds = dtensor()
        if os.environ["RANK"] == "0":
            print(seconds)
        return
    lines = [["a parameter, Adam", f"{parameter():.3f}"]]
    try:
        lines.append(["FBGEMM, row-wise Adagrad", f"{fbgemm():.3f}"])
    except ImportError:
        lines.append(["FBGEMM, row-wise Adagrad", "not installed"])
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "benchmarks.row_tables"]
    done = subprocess.run([sys.executable, *launch], stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    lines.append(["DTensor, rows on two ranks, Adam", f"{float(done.stdout.split()[-1]):.3f}"])
    print(markdown(("10⁶ rows of 4 numbers", "s a step"), lines))


if __name__ == "__main__":
    main()
