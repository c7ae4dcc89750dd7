"""Our side: `sinew bench`, one process a call, and `sinew bench ops`."""

import json
import subprocess

import workloads


def run_json(binary, arguments, timeout_s=None):
    done = subprocess.run([str(binary), *arguments], capture_output=True, text=True, check=False, timeout=timeout_s)
    if done.returncode != 0:
        raise RuntimeError(f"sinew {' '.join(arguments)}: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout)


class Sinew:
    """Looks like a worker (compare.py), but measures all forms of a workload at once, each round in a new process."""

    def __init__(self, binary, workload, repeat, options, name="sinew"):
        self.arguments = ["bench", "--workload", workload, "--repeat", str(repeat), "--json", *options]
        self.binary, self.workload, self.name = binary, workload, name
        self.version, self.forms = "sinew", {}

    def round(self, timeout_s=None):
        """Median seconds by form."""
        result = run_json(self.binary, self.arguments, timeout_s)
        timings = result["timings"]
        self.version = f"sinew {result['version']} on {result['backend']}, {result['threads']} threads"
        golden = workloads.description(self.workload)["arena"]["loss_f64"]
        error = abs(result["outputs"]["loss"] / golden - 1)
        self.forms = {form: {"compile_s": timings["compile_s"], "error": error} for form in workloads.FORMS}
        return {form: 1e-3 * timings[form + "_ms"] for form in workloads.FORMS}

    def try_round(self, timeout_s):
        """The same, where the others shall go on if it fails."""
        try:
            return self.round(timeout_s)
        except (RuntimeError, subprocess.TimeoutExpired) as failure:
            self.forms = {form: {"failed": str(failure)} for form in workloads.FORMS}
            return {}

    def close(self):
        pass
