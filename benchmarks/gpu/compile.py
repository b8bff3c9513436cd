"""Compile the attention kernels for an H100 or H200, without one, and print their resources.

    python benchmarks/gpu/compile.py [--slots 32,39] [--warps 1,2,4,8]

Prints the registers, spilled bytes and shared memory of each kernel, and the number of its programs
that fit a multiprocessor at once. A kernel that spills moves its weights through memory.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from molsepnorm.nn.kernels import fused_attention as fused
from molsepnorm.nn.kernels import triton_kernels as fused_kernels

HOPPER = GPUTarget("cuda", 90, 32)
REGISTERS, SHARED, WARPS = 65_536, 227 * 1024, 64  # of a Hopper multiprocessor
TYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}  # PyTorch's names, Triton's


class Usage(NamedTuple):
    """Resources of one program."""

    registers: int  # of a thread
    spilled: int  # bytes of a thread
    shared: int  # bytes
    warps: int

    @property
    def resident(self) -> int:
        """Number of programs that a multiprocessor holds at once."""
        per_warp = -(-self.registers // 8) * 8 * 32
        shared = SHARED // (self.shared + 1024)
        return min(REGISTERS // (per_warp * self.warps), WARPS // self.warps, shared, 32)


def compiled(kernel: Any, constants: dict[str, Any], dtype: str, warps: int) -> Any:
    """Compile one of `molsepnorm.nn.kernels.triton_kernels` for a Hopper GPU."""
    types = dict.fromkeys(kernel.arg_names, "i32") | {"scale": "fp32"}
    types |= dict.fromkeys(("qkv", "y", "grad", "grad_qkv"), f"*{TYPES[dtype]}")
    types |= {"bias": "*fp32", "grad_bias": "*fp32", "seeds": "*i64"}
    types |= dict.fromkeys(constants, "constexpr")
    signature = {name: types[name] for name in kernel.arg_names}
    aligned = {
        (index,): [["tt.divisibility", 16]]
        for index, name in enumerate(signature)
        if signature[name].startswith("*")
    }
    source = ASTSource(kernel, signature, constants, aligned)
    return triton.compile(source, target=HOPPER, options={"num_warps": warps, "num_stages": 1})


def usage(kernel: Any) -> Usage:
    """Read the resources with the disassembler that Triton includes."""
    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        command = [str(tool), "-res-usage", file.name]
        report = subprocess.run(command, capture_output=True, text=True, check=True)
    found = dict(re.findall(r"(\w+):(\d+)", report.stdout + report.stderr))
    metadata = kernel.metadata
    spilled = int(found["STACK"]) + int(found["LOCAL"])
    return Usage(int(found["REG"]), spilled, metadata.shared, metadata.num_warps)


def cases(lengths: list[int], rates: list[int]) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield kernels for SLIM's 8 heads of width 10 and graphs of these slots."""
    for slots in lengths:
        for dtype, precision in (("float32", "ieee"), ("float32", "tf32"), ("bfloat16", "ieee")):
            for dropped in rates:
                given = fused.constants(slots, slots, 8, 10, dropped, getattr(torch, dtype))
                for name in ("forward", "backward"):
                    yield name, given | {"PRECISION": precision}, dtype


def main() -> None:
    parser = argparse.ArgumentParser(description="Registers and memory of the attention kernels.")
    numbers = {"type": lambda text: [int(number) for number in text.split(",")]}
    parser.add_argument("--slots", default=[16, 32, 39, fused.FUSED_SLOTS], **numbers)
    parser.add_argument("--dropped", default=[0, 26], **numbers, help="of 256 weights")
    parser.add_argument(
        "--warps", **numbers, help="compare these; by default those that the package chooses"
    )
    options = parser.parse_args()
    print(
        "kernel    tile    type      products  dropped  warps  registers  spilled  shared  at_once"
    )
    for name, given, dtype in cases(options.slots, options.dropped):
        tile = f"{given['ROWS']}x{given['COLUMNS']}"
        precision = given["PRECISION"] if dtype == "float32" else "bf16"
        for warps in options.warps or [fused.warps(given["COLUMNS"], getattr(torch, dtype))]:
            use = usage(compiled(getattr(fused_kernels, name), given, dtype, warps))
            print(
                f"{name:8}  {tile:6}  {dtype:8}  {precision:8}  {given['DROPPED']:7}  "
                f"{use.warps:5}  {use.registers:9}  {use.spilled:7}  {use.shared:6}  "
                f"{use.resident:7}",
                flush=True,
            )


if __name__ == "__main__":
    main()
