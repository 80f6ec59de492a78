"""An emulated accelerator for trainers of tests. The file device.ID in the current directory, ID being the node's,
says what it is like:

	type=NAME launch=SECONDS speed=ROWS/S saturation=ROWS base=PART each=PART fits=ROWS

A step of n rows takes launch + max(n, saturation) / speed seconds (it sleeps), and base + each * n of the memory;
more than fits rows do not fit. What it says of itself is computed, not measured.
"""
import os
import time


class Device:
    def __init__(self):
        self.launch, self.speed, self.saturation, self.base, self.each, self.fits = 0.0, 1e9, 1.0, 0.0, 0.0, 1e9
        self.type = "emulated"
        self.file = "device." + os.environ["PACELINE_ID"]
        self.is_there = os.path.exists(self.file)
        if self.is_there:
            with open(self.file) as file:
                for field in file.read().split():
                    name, _, value = field.partition("=")
                    setattr(self, name, value if name == "type" else float(value))

    def next(self, word):
        return word + " device=" + self.type if self.is_there else word

    def train(self, size, accum, ask):
        """What step or sum says; ask(word) asks the agent."""
        if not self.is_there:
            return ""
        part = -(-size // accum)
        while part > self.fits:
            part = -(-part // 2)
            if part <= self.fits:
                ask("fits rows=%d" % part)
        seconds, left = 0.0, size
        while left > 0:
            seconds += self.launch + max(min(part, left), self.saturation) / self.speed
            left -= part
        time.sleep(seconds)
        print("batch", size, part, flush=True)
        return " time=%.9g mem=%.9g" % (max(seconds, 1e-9), min(self.base + self.each * part, 1))
