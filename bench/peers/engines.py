"""The peers. An engine prepares one form of one workload and hands out a function that runs it once.

    engine = ENGINES[name](workload, threads)
    run = engine.prepare(form)      # may take long: compiles
    result = run()                  # (output, loss), None where the form has none; waits until it is there

Each lives in a process of its own (worker.py), so that thread pools do not meet. An engine says which forms it
has; `unfit` gives the reason why it cannot do a workload at all.
"""

import importlib.metadata
import os
import tempfile

import numpy as np

import workloads


# --- what engines on CPUs and on GPUs (gpu_engines.py) share


class Peer:
    package = None

    @classmethod
    def version(cls):
        return f"{cls.package} {importlib.metadata.version(cls.package)}"


class TorchSteps:
    """One run of `self.model`, a workload of the module `self.models`. `compiled` is what is done to a function first."""

    package = "torch"

    def forward(self, x, compiled):
        model = compiled(self.model)

        def run():
            with self.torch.inference_mode():
                return model(*x), None

        return run

    def training(self, x, target, compiled):
        def loss(*values):
            output = self.model(*values)
            return output, self.models.loss(self.workload, output, target)

        loss = compiled(loss)

        def run():
            self.model.zero_grad(set_to_none=True)
            output, value = loss(*x)
            value.backward()
            return output.detach(), value.detach()

        return run


class JaxSteps:
    """jit of the function and of its value and gradient; the parameters are arguments."""

    package = "jax"

    def load(self, platform):
        os.environ["JAX_PLATFORMS"] = platform
        import jax

        import jax_models

        self.jax, self.models = jax, jax_models
        self.values, self.trained = jax_models.parameters(self.workload, "live")

    def step(self, form):
        x = [self.jax.numpy.asarray(v) for v in workloads.inputs(self.workload, form)]
        return self.training(x) if form == "training" else self.forward(x)

    def forward(self, x):
        model = self.jax.jit(self.models.MODELS[self.workload])
        return lambda: (self.jax.block_until_ready(model(self.values, *x)), None)

    def training(self, x):
        model = self.models.MODELS[self.workload]

        def loss(trained, rest, *inputs):
            output = model({**trained, **rest}, *inputs)
            return self.models.loss(self.workload, output), output

        step = self.jax.jit(self.jax.value_and_grad(loss, has_aux=True))
        trained = {name: self.values[name] for name in self.trained}
        rest = {name: x for name, x in self.values.items() if name not in trained}

        def run():
            (value, output), gradients = self.jax.block_until_ready(step(trained, rest, *x))
            self.see(gradients)
            return output, value

        return run

    def see(self, gradients):
        """Of a training run."""


# --- engines on CPUs


class Engine(Peer):
    forms = workloads.FORMS

    def __init__(self, workload, threads):
        self.workload, self.threads = workload, threads

    @classmethod
    def unfit(cls, workload):
        return None


# --- PyTorch


class Eager(TorchSteps, Engine):
    """As PyTorch runs it by itself, images stored [N, C, H, W]."""

    channels_last = False

    def __init__(self, workload, threads):
        super().__init__(workload, threads)
        import torch

        import torch_models

        torch.set_num_threads(threads)
        self.torch, self.models = torch, torch_models
        self.model = self.laid_out(torch_models.build(workload, "live"))

    def laid_out(self, x):
        return x.to(memory_format=self.torch.channels_last) if self.channels_last else x

    def inputs(self, form):
        return [self.laid_out(self.torch.from_numpy(x)) for x in workloads.inputs(self.workload, form)]

    def compiled(self, function, form):
        return function

    def prepare(self, form):
        x = self.inputs(form)
        if form == "training":
            return self.training(x, self.models.target(self.workload), lambda f: self.compiled(f, form))
        return self.forward(x, lambda f: self.compiled(f, form))


class EagerChannelsLast(Eager):
    """The same, images and their weights stored [N, H, W, C], which oneDNN prefers."""

    channels_last = True

    @classmethod
    def unfit(cls, workload):
        import torch_models

        return None if workload in torch_models.CONVOLUTIONAL else "no images"


class Compiled(Eager):
    """torch.compile; weights are constants to the forms without gradients, so that they are packed once."""

    def compiled(self, function, form):
        options = {"freezing": form != "training", "cpp.threads": self.threads}
        return self.torch.compile(function, dynamic=False, options=options)


# --- ONNX Runtime


class OnnxRuntime(Engine):
    """The PyTorch model, exported. Weights are in the file. It has no gradients."""

    package = "onnxruntime"
    forms = ("inference", "latency")

    def prepare(self, form):
        import onnxruntime

        with tempfile.TemporaryDirectory() as folder:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = self.threads
            options.log_severity_level = 3
            session = onnxruntime.InferenceSession(self.export(form, folder), options, ["CPUExecutionProvider"])
        binding = session.io_binding()
        for node, x in zip(session.get_inputs(), workloads.inputs(self.workload, form)):
            binding.bind_ortvalue_input(node.name, onnxruntime.OrtValue.ortvalue_from_numpy(x))
        output = session.get_outputs()[0]
        room = onnxruntime.OrtValue.ortvalue_from_shape_and_type(output.shape, np.float32, "cpu")
        binding.bind_ortvalue_output(output.name, room)

        def run():
            session.run_with_iobinding(binding)
            return room, None

        return run

    def export(self, form, folder):
        import torch

        import torch_models

        path = os.path.join(folder, "model.onnx")
        x = tuple(torch.from_numpy(v) for v in workloads.inputs(self.workload, form))
        model = torch_models.build(self.workload, "live")
        with torch.no_grad():
            torch.onnx.export(model, x, path, dynamo=True, verbose=False, optimize=True, external_data=True)
        return path


# --- JAX


class Jax(JaxSteps, Engine):
    def __init__(self, workload, threads):
        super().__init__(workload, threads)
        self.load(os.environ.get("JAX_PLATFORMS", "cpu"))

    def prepare(self, form):
        return self.step(form)


ENGINES = {"eager": Eager, "eager-nhwc": EagerChannelsLast, "compiled": Compiled, "onnxruntime": OnnxRuntime,
           "jax": Jax}
