#!/usr/bin/env python3
"""Makes the embedded digits from the four files of MNIST: the first K images of each class, in their original order.

    python3 make_digits.py FOLDER_WITH_MNIST

reads FOLDER/{train,t10k}-{images-idx3,labels-idx1}-ubyte.gz and writes the same four names into the folder of this
script. The choice is fixed by the data, so the unpacked bytes are always the same; their SHA-256 is in README.md and
in src/data/catalogue.rs.
"""
import gzip
import hashlib
import struct
import sys
from pathlib import Path

HERE = Path(__file__).parent
PER_CLASS = {"train": 600, "t10k": 100}
SIDE = 28


def read(path, header):
    with gzip.open(path) as file:
        return file.read()[header:]


def write(name, header, body):
    content = header + body
    with open(HERE / f"{name}.gz", "wb") as file:
        # No name and no time inside: the same bytes whenever it is run.
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=9, mtime=0) as packed:
            packed.write(content)
    print(hashlib.sha256(content).hexdigest(), name)


def main(source):
    for split, per_class in PER_CLASS.items():
        images = read(source / f"{split}-images-idx3-ubyte.gz", 16)
        labels = read(source / f"{split}-labels-idx1-ubyte.gz", 8)
        seen = [0] * 10
        chosen = []
        for index, label in enumerate(labels):
            if seen[label] < per_class:
                seen[label] += 1
                chosen.append(index)
        assert seen == [per_class] * 10
        size = SIDE * SIDE
        pixels = b"".join(images[i * size:(i + 1) * size] for i in chosen)
        write(f"{split}-images-idx3-ubyte", struct.pack(">IIII", 0x803, len(chosen), SIDE, SIDE), pixels)
        write(f"{split}-labels-idx1-ubyte", struct.pack(">II", 0x801, len(chosen)), bytes(labels[i] for i in chosen))


main(Path(sys.argv[1]))
