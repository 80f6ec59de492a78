#!/usr/bin/env python3
"""score.py MODEL.safetensors < ROWS.csv: the scores that predict(1) gives, from an export alone.

    ckpt export CHECKPOINT model.safetensors
    python3 score.py model.safetensors < rows.csv

An example of SCORES BY ANOTHER PROGRAM in predict(1), for csv rows: to read, to translate, and to
compare with. It needs no package, only the library xxhash that Paceline itself uses.
"""
import array
import csv
import ctypes
import json
import math
import signal
import struct
import sys
from urllib.parse import unquote_to_bytes

GAIN = 0.4  # deep parameters are kept 1/GAIN times as large as they act

xxh3 = ctypes.CDLL("libxxhash.so.0").XXH3_64bits_withSeed
xxh3.restype = ctypes.c_uint64
xxh3.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]


def hash64(data, seed=0):
    return xxh3(data, len(data), seed)


def records(text):
    """paceline-record(5): the type and the fields of each line, values as bytes."""
    for line in text.splitlines():
        kind, *fields = line.split("\t")[0].split(" ")
        yield kind, {key: unquote_to_bytes(value) for key, value in (f.split("=", 1) for f in fields)}


def philox(counter, key):
    """Philox4x32-10, for the first values of embeddings that were never trained."""
    a, b, c, d = counter
    k, l = key
    for _ in range(10):
        x, y = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = (y >> 32) ^ b ^ k, y & 0xFFFFFFFF, (x >> 32) ^ d ^ l, x & 0xFFFFFFFF
        k, l = (k + 0x9E3779B9) & 0xFFFFFFFF, (l + 0xBB67AE85) & 0xFFFFFFFF
    return [(v + 0.5) / 2**32 for v in (a, b, c, d)]


def dot(v, w):
    return sum(a * b for a, b in zip(v, w))


def pairs(embeddings):
    return sum(dot(v, w) for i, v in enumerate(embeddings) for w in embeddings[:i])


class Model:
    def __init__(self, path):
        with open(path, "rb") as f:
            data = f.read()
        (length,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8 : 8 + length])
        metadata = header.pop("__metadata__")
        self.tensor = {}
        for name, t in header.items():
            begin, end = (8 + length + at for at in t["data_offsets"])
            self.tensor[name] = array.array({"F32": "f", "I64": "q"}[t["dtype"]], data[begin:end])
        self.rows = {key: i for i, key in enumerate(self.tensor["keys.keys"])}
        schema = list(records(metadata["schema"]))
        self.schema = schema[0][1]
        separator = self.schema.get("separator", b"tab" if self.schema["format"] == b"tsv" else b",")
        self.separator = "\t" if separator == b"tab" else separator.decode()
        words = self.schema.get("missing", b"").split(b",")
        self.missing = {unquote_to_bytes(word) for word in words}
        self.dense = [r for kind, r in schema if kind == "dense"]
        self.sparse = [r for kind, r in schema if kind == "sparse"]
        ((_, self.kind),) = records(metadata["model"])
        layout = list(records(metadata["layout"]))
        self.seed = int(layout[0][1]["seed"])
        self.table = next(r for kind, r in layout if kind == "table")
        self.width = int(self.table["width"])

    def input(self, column, text):
        """A dense column's value as the model sees it."""
        if not text:
            return 0.0
        x, scale = float(text), self.schema["scale"]
        if scale == b"none":
            return x
        if scale == b"log-z":
            x = math.copysign(math.log1p(abs(x)), x)
        return (x - float(column["mean"])) / float(column["deviation"])

    def row(self, column, text):
        """The table's row of a category: its weight, then its embedding."""
        key = hash64(text, hash64(column["name"])) % 2 ** int(self.schema["hash-bits"])
        at = self.rows.get(key)
        if at is not None:
            return self.tensor["keys.values"][at * self.width : (at + 1) * self.width]
        row = [0.0]  # never trained
        for j in range(1, self.width):
            u = philox((key, 0, 1, j // 4), (self.seed & 0xFFFFFFFF, self.seed >> 32))
            radius = float(self.table["scale"]) * math.sqrt(-2 * math.log(u[j % 4 // 2 * 2]))
            angle = 2 * math.pi * u[j % 4 // 2 * 2 + 1]
            row.append(radius * (math.sin(angle) if j % 2 else math.cos(angle)))
        return row

    def score(self, fields):
        fields = {name: b"" if text in self.missing else text for name, text in fields.items()}
        x = [self.input(c, fields[c["name"]]) for c in self.dense]
        rows = [self.row(c, fields[c["name"]]) for c in self.sparse]
        z = self.tensor["bias"][0] + sum(row[0] for row in rows)
        z += dot(self.tensor.get("dense.weight", []), x)
        z += self.beside(x, [row[1:] for row in rows])
        return 1 / (1 + math.exp(-z)) if z > -700 else 0.0

    def beside(self, x, embeddings):
        """The output of what a model has beside its wide part."""
        name = self.kind["name"]
        if name == b"fm":
            return pairs(embeddings)
        if name == b"ffm":
            return self.field_pairs(embeddings)
        if name not in (b"wdl", b"deepfm", b"dcn", b"xdeepfm"):
            return 0
        embeddings = [[GAIN * e for e in v] for v in embeddings]
        inputs = sum(embeddings, []) + x
        if name == b"deepfm":
            return self.deep(inputs) + pairs(embeddings)
        if name == b"dcn":
            return self.deep(inputs) + self.cross(inputs)
        return self.deep(inputs) + (self.cin(embeddings) if name == b"xdeepfm" else 0)

    def field_pairs(self, embeddings):
        n = int(self.kind["embed"])
        parts = [[v[at : at + n] for at in range(0, len(v), n)] for v in embeddings]
        return sum(dot(parts[i][j], parts[j][i]) for i in range(len(parts)) for j in range(i))

    def deep(self, h):
        for i in range(1, len(self.kind["hidden"].split(b",")) + 1):
            h = self.layer(f"hidden{i}", h)
        return GAIN * dot(self.tensor["output.weight"], h)

    def cross(self, inputs):
        x = inputs
        for i in range(1, int(self.kind["cross"]) + 1):
            factor = dot(self.tensor[f"cross{i}.weight"], x)
            x = [factor * a + b + c for a, b, c in zip(inputs, self.tensor[f"cross{i}.bias"], x)]
        return dot(self.tensor["cross.weight"], x)

    def cin(self, embeddings):
        maps, sums = embeddings, []
        for i in range(1, len(self.kind["cin"].split(b",")) + 1):
            weight = self.tensor[f"cin{i}.weight"]
            products = [[a * b for a, b in zip(v, w)] for v in maps for w in embeddings]
            lines = (weight[at : at + len(products)] for at in range(0, len(weight), len(products)))
            maps = [[dot(line, column) for column in zip(*products)] for line in lines]
            sums += map(sum, maps)
        return dot(self.tensor["cin.weight"], sums)

    def layer(self, name, h):
        weight, bias = self.tensor[name + ".weight"], self.tensor[name + ".bias"]
        sums = (dot(weight[i * len(h) :], h) for i in range(len(bias)))
        return [max(0.0, GAIN * (s + b)) for s, b in zip(sums, bias)]


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: score.py MODEL.safetensors < ROWS.csv")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # head(1) may have seen enough
    model = Model(sys.argv[1])
    # latin-1 keeps every byte as it is: categories are bytes, whatever their encoding.
    lines = open(sys.stdin.fileno(), encoding="latin-1", newline="")
    rows = csv.reader(lines, delimiter=model.separator)
    header = [name.strip().encode("latin-1") for name in next(rows)]
    for row in rows:
        if row:
            fields = dict(zip(header, (field.strip().encode("latin-1") for field in row)))
            print(f"{model.score(fields):.9g}")


main()
