"""How fast PyTorch trains and evaluates the models: what agewise is measured against. Prints one line,
`MODEL MODE SAMPLES_PER_SECOND`, or with --matmul `matmul f32 GFLOP_PER_SECOND`, over one single-threaded process per
core, all started at the same time.

    torch_training.py MODEL MODE [SECONDS] [--data FOLDER] [--set KEY=VALUE]...
    torch_training.py --matmul [SECONDS]

MODEL is softmax, 2nn, cnn or cnn-cifar; MODE is train (batches of 50, plain SGD) or eval (forward, batches of 500).
FOLDER, or AGEWISE_DATA, has the MNIST files; with CIFAR-10's binary files there too, cnn-cifar learns from them.

PyTorch is tuned as well as we can: the aim is to be compared with the strongest honest program, not with the usual one.
What was tried, on 2 cores of an AMD EPYC (AVX2) with PyTorch 2.15, as samples/s without and with it; every choice is a
KEY=VALUE below, so that it can be measured again. The machine was shared: differences under 5% are noise.

- layout=channels_last: cnn 1520 -> 1740, cnn-cifar 1160 -> 1300 (train); 4180 -> 5060, 2560 -> 3700 (eval). Kept.
- malloc=raised, so that glibc does not give the large buffers back to the system after every batch: cnn 1480 -> 1740,
  cnn-cifar 1120 -> 1300; nothing for the dense models. Kept for all.
- pool=before, max-pool before ReLU (the same function): cnn 1690 -> 1740, cnn-cifar nothing. Kept for both.
- step, autograd: plain / foreach / fused / axpy: softmax 320 / 295 / 305 / 407 thousand, 2nn 85 / 88 / 90 / 97
  thousand; cnn 1702 / 1740 / 1699 / 1596, cnn-cifar within 3%. axpy for the dense models, foreach for the others.
- backward=hand, the gradient of the dense models written out in tensor operations with the SGD step folded into the
  weight product, no autograd at all: softmax 407 -> 922, 2nn 97 -> 127 thousand. Kept, although hardly anybody would
  write PyTorch so; backward=autograd measures the usual form.
- mkl=intel, which makes MKL take the code it has for Intel's AVX2 processors on an AMD one: softmax 922 -> 1164,
  2nn 127 -> 141 thousand, cnn 1741 -> 1780, cnn-cifar nothing, large products 80 -> 85 GFLOP/s per core. Kept; needs
  a C compiler.
- freeze=yes, a traced and frozen graph whose weights are packed once, for eval: cnn 5140 -> 7050, cnn-cifar 3630 ->
  4930; not seen to help the dense models. Kept for the convolutions. Packing is not counted, though a federated
  run would pay for it in every round, since every round has new weights.
- batch=50, 100, 2000 in eval instead of 500: within 5% for the convolutions.
- gather=client, one gather per epoch of a client instead of one per batch: slower by 2% to 12%. pin=yes (a core per
  process), denormal=flush and huge pages (GLIBC_TUNABLES=glibc.malloc.hugetlb=1): nothing. torch.compile for
  training: worse in earlier measurements (0.55 of the tuned form, on another machine); not usefully measured here.
"""

import argparse
import multiprocessing
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

BATCH = 50
EVAL_BATCH = 500
LEARNING_RATE = 0.1
CLIENT_SAMPLES = 600
SAMPLES = 6000
WARM_UP_SECONDS = 0.7

COMMON = dict(malloc="raised", mkl="intel", denormal="keep", gather="batch", pin="no", batch=str(EVAL_BATCH))
DENSE = COMMON | dict(layout="contiguous", pool="after", step="axpy", backward="hand", freeze="no")
CONVOLUTIONAL = COMMON | dict(layout="channels_last", pool="before", step="foreach", backward="autograd", freeze="yes")
TUNING = {"softmax": DENSE, "2nn": DENSE, "cnn": CONVOLUTIONAL, "cnn-cifar": CONVOLUTIONAL}

MALLOC = {
    "MALLOC_TOP_PAD_": str(256 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(4 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(4 << 30),
}


def intel_code_path():
    """A library that answers MKL's question whether this is an Intel processor with yes; nothing without a compiler."""
    library = Path(__file__).resolve().parent / ".build" / "intel.so"
    if not library.exists():
        library.parent.mkdir(exist_ok=True)
        source = library.with_suffix(".c")
        source.write_text("int mkl_serv_intel_cpu_true(void) { return 1; }\n")
        try:
            subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        except (OSError, subprocess.CalledProcessError):
            print("no C compiler: MKL takes the code path it chooses itself", file=sys.stderr)
            return None
    return str(library)


def restart_with_environment(tuning):
    """glibc and the loader read their variables at the start of a process only, so it starts once more."""
    if "AGEWISE_TUNED" in os.environ:
        return
    environment = dict(os.environ, AGEWISE_TUNED="1")
    if tuning["malloc"] == "raised":
        environment |= MALLOC
    if tuning["mkl"] == "intel" and "AuthenticAMD" in Path("/proc/cpuinfo").read_text():
        library = intel_code_path()
        if library:
            environment["LD_PRELOAD"] = " ".join(filter(None, [library, os.environ.get("LD_PRELOAD")]))
    os.execve(sys.executable, [sys.executable, *sys.argv], environment)


def evaluation(model, tuning, images, labels):
    """A function that classifies all samples and says how many they were."""
    import torch

    batch = int(tuning["batch"])
    parts = list(zip(images.split(batch), labels.split(batch)))
    if tuning["freeze"] == "yes":
        # Deprecated in favour of torch.compile, but the fastest there is.
        warnings.simplefilter("ignore", FutureWarning)
        with torch.no_grad():
            model = torch.jit.optimize_for_inference(torch.jit.trace(model.eval(), images[:batch]))

    def work():
        correct = 0
        with torch.inference_mode():
            for x, y in parts:
                correct += (model(x).argmax(1) == y).sum().item()
        return len(images)

    return work


def autograd_step(model, how):
    """One SGD step on a batch."""
    import torch
    from torch.nn import functional as F

    parameters = list(model.parameters())
    if how == "axpy":

        def step(x, y):
            F.cross_entropy(model(x), y).backward()
            with torch.no_grad():
                for p in parameters:
                    p.add_(p.grad, alpha=-LEARNING_RATE)
                    p.grad = None

        return step

    optimizer = torch.optim.SGD(parameters, LEARNING_RATE, foreach=how == "foreach", fused=how == "fused")

    def step(x, y):
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def hand_written_step(model):
    """One SGD step on a batch for dense layers, the labels given as one-hot rows."""
    import torch

    parameters = [p.detach() for p in model.parameters()]
    layers = list(zip(parameters[::2], parameters[1::2]))

    def step(x, y):
        scale = -LEARNING_RATE / len(x)
        with torch.inference_mode():
            inputs = [x]
            for weight, bias in layers[:-1]:
                inputs.append(torch.addmm(bias, inputs[-1], weight.t()).relu_())
            weight, bias = layers[-1]
            gradient = torch.addmm(bias, inputs[-1], weight.t()).softmax(1).sub_(y)
            for i in range(len(layers) - 1, -1, -1):
                weight, bias = layers[i]
                if i > 0:
                    # Before the weights change below.
                    next_gradient = torch.ops.aten.threshold_backward(gradient @ weight, inputs[i], 0)
                weight.addmm_(gradient.t(), inputs[i], alpha=scale)
                bias.add_(gradient.sum(0), alpha=scale)
                if i > 0:
                    gradient = next_gradient

    return step


def check_hand_written(model, x, labels, one_hot):
    """A baseline that computes something else would be worthless: one step has to be autograd's."""
    import copy

    import torch

    by_hand, by_autograd = copy.deepcopy(model), copy.deepcopy(model)
    hand_written_step(by_hand)(x, one_hot)
    autograd_step(by_autograd, "plain")(x, labels)
    for a, b, start in zip(by_hand.parameters(), by_autograd.parameters(), model.parameters()):
        step = (b - start).abs().max()
        # Two roundings of the parameter are below a thousandth of a step.
        assert (a - b).abs().max() <= 1e-3 * step, "the hand-written step is not autograd's"


def training(model, tuning, images, labels):
    """A function that trains for one epoch of one client and says how many samples these were."""
    import torch
    from torch.nn import functional as F

    if tuning["backward"] == "hand":
        one_hot = F.one_hot(labels, 10).float()
        check_hand_written(model, images[:BATCH], labels[:BATCH], one_hot[:BATCH])
        labels = one_hot
        step = hand_written_step(model)
    else:
        step = autograd_step(model, tuning["step"])
    clients = len(images) // CLIENT_SAMPLES
    epochs = 0

    def work():
        nonlocal epochs
        order = torch.randperm(CLIENT_SAMPLES) + epochs % clients * CLIENT_SAMPLES
        epochs += 1
        if tuning["gather"] == "client":
            for x, y in zip(images[order].split(BATCH), labels[order].split(BATCH)):
                step(x, y)
        else:
            for part in order.split(BATCH):
                step(images[part], labels[part])
        return CLIENT_SAMPLES

    return work


def matrix_products():
    """A function that multiplies large matrices and says how many GFLOP that took."""
    import torch

    n = 2048
    a, b, c = torch.randn(n, n), torch.randn(n, n), torch.empty(n, n)

    def work():
        torch.mm(a, b, out=c)
        return 2 * n**3 / 1e9

    return work


def prepare(name, mode, tuning, images, labels):
    import torch

    import models

    if name == "matmul":
        return matrix_products()
    torch.set_flush_denormal(tuning["denormal"] == "flush")
    model = models.build(name, pool_first=tuning["pool"] == "before")
    if name in models.CONVOLUTIONAL:
        layout = torch.channels_last if tuning["layout"] == "channels_last" else torch.contiguous_format
        model = model.to(memory_format=layout)
        images = images.contiguous(memory_format=layout)
    else:
        images = images.flatten(1)
    return (training if mode == "train" else evaluation)(model, tuning, images, labels)


def measure(core, name, mode, tuning, images, labels, seconds, barrier, results):
    """One of the processes: units of work per second, and the share of the time that it had a core."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(core)
    if tuning["pin"] == "yes":
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[core]})
    try:
        work = prepare(name, mode, tuning, images, labels)
        end = time.perf_counter() + WARM_UP_SECONDS
        work()
        while time.perf_counter() < end:
            work()
    except BaseException:
        barrier.abort()
        results.put((0.0, 0.0))
        raise
    barrier.wait()
    done, elapsed = 0, 0.0
    start, start_cpu = time.perf_counter(), time.process_time()
    while elapsed < seconds:
        done += work()
        elapsed = time.perf_counter() - start
    results.put((done / elapsed, (time.process_time() - start_cpu) / elapsed))


def main():
    parser = argparse.ArgumentParser(description="PyTorch's speed in training and evaluation")
    parser.add_argument("what", nargs="*", metavar="MODEL MODE [SECONDS]")
    parser.add_argument("--matmul", action="store_true", help="large f32 matrix products instead of a model")
    parser.add_argument("--data", help="folder with the data files (otherwise AGEWISE_DATA)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="another choice of tuning")
    arguments = parser.parse_args()
    what = arguments.what
    if arguments.matmul:
        what = ["matmul", "f32", *what]
    if len(what) not in (2, 3) or not (arguments.matmul or (what[0] in TUNING and what[1] in ("train", "eval"))):
        parser.error(f"give a model ({', '.join(TUNING)}), a mode (train, eval) and seconds, or --matmul")
    name, mode = what[:2]
    seconds = float(what[2]) if len(what) == 3 else 3.0
    tuning = dict(TUNING.get(name, DENSE))
    for change in arguments.set:
        key, _, value = change.partition("=")
        if key not in tuning:
            parser.error(f"--set {change}: the keys are {', '.join(tuning)}")
        tuning[key] = value
    if tuning["backward"] == "hand" and name in ("cnn", "cnn-cifar"):
        parser.error("backward=hand is for softmax and 2nn only")
    restart_with_environment(tuning)

    import torch

    import models

    torch.set_num_threads(1)
    images = labels = None
    if not arguments.matmul:
        images, labels, source = models.samples(name, models.data_folder(arguments.data), SAMPLES)
        print(f"{name}: {len(images)} samples of {source}", file=sys.stderr)
    # Nothing has run in PyTorch so far that started threads, so a fork is safe, and shares the samples.
    context = multiprocessing.get_context("fork")
    cores = len(os.sched_getaffinity(0))
    barrier, results = context.Barrier(cores), context.Queue()
    processes = [
        context.Process(target=measure, args=(core, name, mode, tuning, images, labels, seconds, barrier, results))
        for core in range(cores)
    ]
    for process in processes:
        process.start()
    rates, shares = zip(*(results.get() for _ in processes))
    for process in processes:
        process.join()
    if not all(rates):
        raise SystemExit(1)
    if min(shares) < 0.95:
        print(f"{name} {mode}: disturbed, had its cores only {min(shares):.0%} of the time", file=sys.stderr)
    print(name, mode, f"{sum(rates):.1f}", flush=True)


if __name__ == "__main__":
    main()
