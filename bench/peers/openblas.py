"""sgemm of OpenBLAS through ctypes: the system's library, or the one inside the numpy package."""

import ctypes
import glob
import pathlib

import numpy as np

ROW_MAJOR, NO_TRANS, TRANS = 101, 111, 112


class OpenBlas:
    """`flavour` is "numpy" (64-bit integers, prefixed names) or "system"."""

    def __init__(self, flavour, threads):
        before, after = ("scipy_", "64_") if flavour == "numpy" else ("", "")
        integer = ctypes.c_int64 if flavour == "numpy" else ctypes.c_int
        library = ctypes.CDLL(self.find(flavour))

        def function(name):
            return getattr(library, before + name + after)

        config = function("openblas_get_config")
        config.restype = ctypes.c_char_p
        self.version = " ".join(config().decode().split()[:2])
        core = function("openblas_get_corename")
        core.restype = ctypes.c_char_p
        self.core = core().decode()
        function("openblas_set_num_threads")(threads)
        pointer, real = ctypes.c_void_p, ctypes.c_float
        self.sgemm = function("cblas_sgemm")
        self.sgemm.argtypes = [ctypes.c_int] * 3 + [integer] * 3 + [real, pointer, integer, pointer, integer,
                                                                    real, pointer, integer]
        self.sgemm.restype = None

    @staticmethod
    def find(flavour):
        if flavour == "numpy":
            folder = pathlib.Path(np.__file__).parent.parent / "numpy.libs"
            return glob.glob(str(folder / "libscipy_openblas*.so"))[0]
        return "libopenblas.so.0"

    def caller(self, m, n, k, ta, tb):
        """A function that multiplies fixed random matrices, and the result it writes to."""
        random = np.random.default_rng(1)
        a = random.random((k, m) if ta else (m, k), np.float32)
        b = random.random((n, k) if tb else (k, n), np.float32)
        out = np.zeros((m, n), np.float32)
        call = [ROW_MAJOR, TRANS if ta else NO_TRANS, TRANS if tb else NO_TRANS, m, n, k, 1.0, a.ctypes.data,
                a.shape[1], b.ctypes.data, b.shape[1], 0.0, out.ctypes.data, n]

        def multiply(_keep=(a, b, out)):
            self.sgemm(*call)

        return multiply, out
