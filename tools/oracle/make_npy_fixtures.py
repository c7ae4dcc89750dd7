#!/usr/bin/env python3
"""Writes tests/fixtures/npy: small arrays as numpy saves them, for the reader of npy files.

Element k of an array, counted in row-major order, is (7 k) mod 11, less 3 where the dtype has a sign; bools are k
mod 3 == 0. Development only; docs/oracle.md says which packages it needs.
"""

import pathlib

import numpy as np
from numpy.lib import format as npy

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "npy"
DTYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]


def array(dtype, shape):
    k = np.arange(int(np.prod(shape, dtype=np.int64)))
    if dtype == "b1":
        return (k % 3 == 0).reshape(shape)
    return (k * 7 % 11 - (0 if dtype[0] == "u" else 3)).astype("<" + dtype).reshape(shape)


def save(name, value, version=None):
    with open(FOLDER / f"{name}.npy", "wb") as file:
        npy.write_array(file, value, version=version, allow_pickle=False)


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for dtype in DTYPES + ["b1"]:
        save(dtype, array(dtype, (3, 4)))
    save("scalar", array("f4", ()))
    save("vector", array("i4", (5,)))
    save("empty", array("f4", (3, 0, 2)))
    save("deep", array("u1", (1, 2, 1, 2, 1, 2, 1, 2)))
    save("too_deep", array("u1", (1,) * 9))
    save("fortran", np.asfortranarray(array("f4", (2, 3, 4))))
    save("fortran_i8", np.asfortranarray(array("i8", (40, 25))))
    save("version_2", array("f4", (3, 4)), (2, 0))
    save("version_3", array("f4", (3, 4)), (3, 0))
    save("odd", np.array([np.nan, np.inf, -np.inf, -0.0, 1e-300], "<f8"))
    save("large_f8", np.array([1, 1e300], "<f8"))
    save("large_i8", np.array([1, 2, 1 << 40], "<i8"))
    save("large_u8", np.array([(1 << 64) - 1], "<u8"))
    save("negative", np.array([0, -1], "<i2"))
    save("big_endian", array("f4", (3, 4)).astype(">f4"))
    save("complex", np.array([1 + 2j], "<c8"))
    save("records", np.zeros(2, [("a", "<f4"), ("b", "<i4")]))


main()
