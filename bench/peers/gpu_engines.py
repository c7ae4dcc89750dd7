"""The peers on a GPU. An engine gets a workload ready in two steps, since a machine's time is short:

    engine = ENGINES[name](workload, device, lock)
    engine.compile(form)                    # long, on the CPU: beside other engines
    for variant, make in engine.variants(form):
        run = make()                        # short, on the GPU: with nobody beside
        output, loss = run()                # waits until they are there; they stay on the GPU
        engine.gradient_norm()              # of the last training run

Everybody may use TF32 in matmuls and convolutions, unless a variant says otherwise. `device` is "cuda", or "cpu" to
try the scripts out. `lock` keeps measurements that choose between kernels from meeting. Each engine lives in a process
of its own (gpu_worker.py).
"""

import copy
import os

import engines
import workloads

TRANSFORMERS = ("SmolLM2-135M", "SmolVLA", "Whisper-tiny")


class Engine(engines.Peer):
    apart = False  # a process for each form: compiling takes long
    niceness = 0  # of the process: who matters less gives way while all compile

    def __init__(self, workload, device, lock):
        self.workload, self.device, self.lock = workload, device, lock

    @classmethod
    def forms(cls, workload):
        return workloads.FORMS

    @classmethod
    def parts(cls, workload):
        """The forms of each process, the longest first. Forms that are the same are compiled once, in one process."""
        forms = cls.forms(workload)
        found = [forms]
        if cls.apart:
            same = workload in workloads.NO_LATENCY
            found = [forms[2:], forms[:2]] if same else [(form,) for form in reversed(forms)]
        return [part for part in found if part]

    @classmethod
    def lock_name(cls, workload):
        """Those with the same name wait for each other."""
        return cls.package


# --- PyTorch


class Torch(engines.TorchSteps, Engine):
    """What all forms of PyTorch share. All of it happens on one stream, which graphs can be captured from."""

    def __init__(self, workload, device, lock):
        super().__init__(workload, device, lock)
        import torch

        import torch_models

        self.torch, self.models = torch, torch_models
        self.target = torch_models.target(workload, device)
        self.stream = torch.cuda.Stream() if device == "cuda" else None
        self.convolutional = workload in torch_models.CONVOLUTIONAL
        self.model = torch_models.build(workload, "live", device)
        self.kept = []
        self.allow_tf32(True)

    def allow_tf32(self, allowed):
        """Matmuls; not allowed is PyTorch's default. Convolutions may by default."""
        self.torch.set_float32_matmul_precision("high" if allowed else "highest")

    def choose_algorithms(self):
        """cuDNN measures its algorithms instead of guessing: when nobody else uses the GPU."""
        self.torch.backends.cudnn.benchmark = True

    def images_last(self):
        """From here on images and their weights are stored [N, H, W, C], which matrix units prefer."""
        self.model = self.model.to(memory_format=self.torch.channels_last)

    def inputs(self, form, channels_last):
        x = [self.torch.from_numpy(v).to(self.device) for v in workloads.inputs(self.workload, form)]
        return [v.to(memory_format=self.torch.channels_last) for v in x] if channels_last else x

    def work(self, form, channels_last=False, compiled=lambda function: function):
        """A function that starts one run and does not wait for it."""
        x = self.inputs(form, channels_last)
        return self.training(x, self.target, compiled) if form == "training" else self.forward(x, compiled)

    def wait(self):
        if self.stream:
            self.torch.cuda.synchronize()

    def launched(self, work):
        """As a program does it, step by step."""

        def run():
            with self.torch.cuda.stream(self.stream):
                result = work()
            self.wait()
            return result

        return run

    def captured(self, work):
        """Captured in a CUDA graph, which is replayed. Results are spoiled once, to see that the graph makes them."""
        run = self.launched(work)
        for _ in range(3):
            run()
        if not self.stream:
            return run
        self.model.zero_grad(set_to_none=True)
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph, stream=self.stream):
            result = work()
        with self.torch.inference_mode():
            result[0].fill_(float("nan"))
        self.kept.append((work, self.model))  # the graph reads their memory

        def replay():
            graph.replay()
            self.torch.cuda.synchronize()
            return result

        return replay

    def gradient_norm(self):
        trained = [p for p in self.model.parameters() if p.requires_grad]
        return float(sum(p.grad.double().square().sum() for p in trained).sqrt())


class Eager(Torch):
    """PyTorch without a compiler: as it is, captured, captured with its default precision, images channels-last."""

    def compile(self, form):
        self.launched(self.work(form))()

    def variants(self, form):
        self.choose_algorithms()
        yield "eager", lambda: self.launched(self.work(form))
        yield "eager-graph", lambda: self.captured(self.work(form))
        yield from self.images_last_variant(form) if self.convolutional else self.default_variant(form)

    def default_variant(self, form):
        self.allow_tf32(False)
        try:
            yield "eager-graph-default", lambda: self.captured(self.work(form))
        finally:
            self.allow_tf32(True)

    def images_last_variant(self, form):
        before, self.model = self.model, copy.deepcopy(self.model)
        self.images_last()
        try:
            yield "eager-graph-nhwc", lambda: self.captured(self.work(form, channels_last=True))
        finally:
            self.model = before


class Compiled(Torch):
    """torch.compile, as it is and captured; weights are constants to the forms without gradients."""

    apart = True
    names = "compiled", "compiled-graph"
    options = {}

    def compile(self, form):
        if self.convolutional:
            self.images_last()
        options = {"freezing": form != "training", **self.options}
        self.started = self.work(form, self.convolutional,
                                 lambda f: self.torch.compile(f, dynamic=False, options=options))
        run = self.launched(self.started)
        run()
        run()

    def variants(self, form):
        self.choose_algorithms()
        plain, graph = self.names
        if plain:
            yield plain, lambda: self.launched(self.started)
        yield graph, lambda: self.captured(self.started)


class Autotuned(Compiled):
    """The same, with matmuls of cuBLAS or Triton as measured. Only where they are most of it: it takes long."""

    niceness = 15
    names = None, "autotuned-graph"
    options = {"max_autotune": True}

    @classmethod
    def forms(cls, workload):
        return ("inference", "latency") if workload in TRANSFORMERS else ()

    def compile(self, form):
        self.measure_alone()
        super().compile(form)

    def measure_alone(self):
        from torch._inductor import select_algorithm

        cache, name = select_algorithm.AlgorithmSelectorCache, "benchmark_in_current_process"
        measure = getattr(cache, name)

        def locked(*args, **kwargs):
            with self.lock:
                return measure(*args, **kwargs)

        setattr(cache, name, staticmethod(locked))


# --- JAX


class Jax(engines.JaxSteps, Engine):
    """TF32 is its default."""

    apart = True
    niceness = 5

    @classmethod
    def lock_name(cls, workload):
        """XLA measures while it compiles. One after the other would take too long: at most one of each workload."""
        return f"{cls.package}-{workload}"

    def __init__(self, workload, device, lock):
        super().__init__(workload, device, lock)
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        self.load(device)
        self.runs = {}

    def compile(self, form):
        run = self.step(form)
        with self.lock:
            run()
        self.runs[form] = run

    def variants(self, form):
        yield "jax", lambda: self.runs[form]

    def see(self, gradients):
        self.gradients = gradients

    def gradient_norm(self):
        squares = (self.jax.numpy.square(g).sum() for g in self.gradients.values())
        return float(sum(float(x) for x in squares) ** 0.5)


ENGINES = {"eager": Eager, "compiled": Compiled, "autotuned": Autotuned, "jax": Jax}
VARIANTS = ("eager", "eager-graph", "eager-graph-default", "eager-graph-nhwc", "compiled", "compiled-graph",
            "autotuned-graph", "jax")
