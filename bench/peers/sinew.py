"""Our side: `sinew bench`, one process a call, and `sinew bench ops`."""

import json
import subprocess

import workloads


def run_json(binary, arguments):
    done = subprocess.run([str(binary), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"sinew {' '.join(arguments)}: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout)


class Sinew:
    """Looks like a worker (peers.py), but measures all forms of a workload at once, each round in a new process."""

    name = "sinew"

    def __init__(self, binary, workload, threads, repeat):
        self.arguments = ["bench", "--workload", workload, "--threads", str(threads), "--repeat", str(repeat), "--json"]
        self.binary, self.workload = binary, workload
        self.version, self.forms = "sinew", {}

    def round(self):
        """Median seconds by form."""
        result = run_json(self.binary, self.arguments)
        timings = result["timings"]
        self.version = f"sinew {result['version']} on {result['backend']}, {result['threads']} threads"
        golden = workloads.description(self.workload)["arena"]["loss_f64"]
        error = abs(result["outputs"]["loss"] / golden - 1)
        self.forms = {form: {"compile_s": timings["compile_s"], "error": error} for form in workloads.FORMS}
        return {form: 1e-3 * timings[form + "_ms"] for form in workloads.FORMS}

    def close(self):
        pass
