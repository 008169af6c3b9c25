"""Rows that other programs measure: the disk tier beside its peers, and the engine inside a process."""

import json
import os
import subprocess
import tempfile

from servers import ROOT, pinned


def run_program(command, output):
    """Runs a program that prints its own lines; what it wrote to its JSON file, which may be less than all."""
    done = subprocess.run(command, check=False)
    if done.returncode != 0:
        print(f"  {os.path.basename(command[0])} failed with exit code {done.returncode}", flush=True)
    if not os.path.exists(output):
        return {}
    with open(output) as file:
        return json.load(file)


class DiskRows:
    """Rows 5 to 9, by `disk-rows`."""

    seconds = 300

    def run(self, options):
        """Everything that `disk-rows` knows."""
        with tempfile.TemporaryDirectory(prefix="bench-") as directory:
            output = os.path.join(directory, "rows.json")
            command = [os.path.join(ROOT, "Benchmarks", "disk-rows"), "--memcached", options.memcached, "--daemon",
                       options.daemon, "--python", options.python, "--seed", str(options.seed), "--json", output,
                       "--embedded", os.path.join(options.build, "EmbeddedCache")]
            if options.redis:
                command += ["--redis", options.redis]
            return run_program(command + (["--short"] if options.short else []), output)


class EngineRows:
    """The engine beside a locked dictionary and NSCache, or what a get costs by the number of entries."""

    def __init__(self, mode, seconds):
        self.mode, self.seconds = mode, seconds

    def run(self, options):
        """The figures that `engine-bench` prints."""
        program = os.path.join(options.build, "engine-bench")
        if not os.access(program, os.X_OK):
            print(f"\n{program} is not built: row left out", flush=True)
            return {}
        command = pinned(options.all_cores, [program, self.mode])
        if options.short:
            command += ["--entries", "100000"]
        print(f"\nengine-bench {self.mode}", flush=True)
        done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            print(f"  failed with exit code {done.returncode}: row left out\n{done.stderr}", flush=True)
            return {}
        print("  " + done.stdout.strip(), flush=True)
        return json.loads(done.stdout)


PROGRAMS = {"disk": DiskRows(), "engine": EngineRows("rows", 25), "growth": EngineRows("growth", 25),
            "scaling": EngineRows("scaling", 60)}
