"""Loads a checkpoint that agewise wrote into the PyTorch module of the same model, strictly: every tensor has to be
there under its name and with its shape, and no other. Prints the shapes.

    check_safetensors.py MODEL FILE.safetensors [--check CHECK.safetensors]

CHECK has agewise's own answers: `images` (n, C, H, W) and the `logits` (n, classes) it computed for them, both f32.
PyTorch's logits may differ from them by 1e-4 of the largest. The exit code is 0 if everything agrees, 1 if not.
"""

import argparse
import sys

import torch
from safetensors.torch import load_file

import models

TOLERANCE = 1e-4


def failure(message):
    print(f"FAILED: {message}")
    sys.exit(1)


def read(path):
    try:
        return load_file(path)
    except Exception as error:  # safetensors has several kinds
        failure(f"{path}: {error}")


def main():
    parser = argparse.ArgumentParser(description="Compare a checkpoint of agewise with PyTorch")
    parser.add_argument("model", choices=models.PARAMETERS)
    parser.add_argument("file")
    parser.add_argument("--check", help="safetensors file with images and agewise's logits for them")
    arguments = parser.parse_args()

    tensors = read(arguments.file)
    model = models.build(arguments.model)
    for name, tensor in tensors.items():
        print(f"{name:<14} {str(tuple(tensor.shape)):<18} {tensor.dtype}")
        if tensor.dtype != torch.float32:
            # load_state_dict would convert it without a word.
            failure(f"{name} is {tensor.dtype}, not float32")
    try:
        model.load_state_dict(tensors, strict=True)
    except RuntimeError as error:
        failure(error)
    print(f"{arguments.model}: {models.PARAMETERS[arguments.model]} parameters loaded")
    if not arguments.check:
        return

    check = read(arguments.check)
    missing = {"images", "logits"} - check.keys()
    if missing:
        failure(f"{arguments.check} has no {' and no '.join(sorted(missing))}")
    images, theirs = check["images"], check["logits"]
    if tuple(images.shape[1:]) != models.INPUT[arguments.model]:
        failure(f"images have the shape {tuple(images.shape)}, not (n, {models.INPUT[arguments.model]})")
    with torch.inference_mode():
        # In f64, so that what is seen is the rounding of agewise only.
        ours = model.double()(images.double())
    if ours.shape != theirs.shape or len(ours) == 0:
        failure(f"logits have the shape {tuple(theirs.shape)}, not {tuple(ours.shape)} with at least one row")
    difference = (ours - theirs.double()).abs().max().item()
    largest = ours.abs().max().item()
    print(f"{len(ours)} images: largest logit {largest:.6g}, largest difference {difference:.3g}")
    # Written so that a NaN fails.
    if not difference <= TOLERANCE * largest:
        failure(f"the logits differ by {difference / largest:.3g} of the largest, more than {TOLERANCE}")


if __name__ == "__main__":
    main()
