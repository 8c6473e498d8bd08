#!/usr/bin/env python3
"""How fast checkpoints of GPT-2 124m are saved and loaded, compared with dd on the same disk, and what a save costs the training.

    python3 tests/bench/checkpoint.py build/hgtrain [--workers 1] [--folder .] [--rounds 3]

A round trains a few steps with and without saves, loads the last checkpoint with a dropped page cache, and lets dd write
and read as many bytes (conv=fsync, and a dropped page cache).
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

STEPS, EVERY = 8, 4


def config(interval, steps):
    return {'train_batch_size': 2, 'optimizer': {'type': 'AdamW', 'params': {'lr': 3e-4}},
            'model': {'model_type': 'gpt2', 'n_layer': 12, 'n_embd': 768, 'n_head': 12, 'n_positions': 256, 'vocab_size': 50257},
            'training': {'train_iters': steps, 'seq_length': 256, 'eval_interval': 0}, 'data': {'train_data_path': 'data'},
            'checkpoint': {'save_interval': interval}}


class Disk:
    def __init__(self, folder):
        self.folder = folder

    def drop(self, path):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)

    def dd(self, size):
        path = self.folder / 'dd'
        timed = []
        for arguments in ((f'if=/dev/zero', f'of={path}', 'bs=1M', f'count={size >> 20}', 'conv=fsync'),
                          (f'if={path}', 'of=/dev/null', 'bs=1M')):
            start = time.monotonic()
            subprocess.run(['dd', *arguments], check=True, stderr=subprocess.DEVNULL)
            timed.append(size / 1e9 / (time.monotonic() - start))
            self.drop(path)
        path.unlink()
        return timed


def spans(trace, name):
    events = json.loads(trace.read_text())
    events = events['traceEvents'] if isinstance(events, dict) else events
    return [event['dur'] / 1e6 for event in events if event.get('name', '').startswith(name) and 'dur' in event]


class Job:
    def __init__(self, program, folder, workers):
        self.program, self.folder, self.workers = program, folder, workers
        (folder / 'text.txt').write_text('a quick brown fox and some lazy dogs\n' * 3000)
        self.call('data', 'prepare', '--input', 'text.txt', '--out', 'data')

    def call(self, *arguments):
        done = subprocess.run([self.program, *map(str, arguments)], cwd=self.folder, text=True, capture_output=True, check=False)
        if done.returncode:
            sys.exit(done.stdout + done.stderr)

    def train(self, run, interval, steps, *flags):
        (self.folder / 'config.json').write_text(json.dumps(config(interval, steps)))
        self.call('--config', 'config.json', '--device', 'cpu', '--num_workers', self.workers, '--run_dir', run,
                  '--trace', f'{run}.trace', *flags)
        records = [json.loads(line) for line in (self.folder / run / 'metrics.jsonl').read_text().splitlines()]
        return [record['step_ms'] / 1e3 for record in records]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('program')
    parser.add_argument('--workers', type=int, default=1)
    parser.add_argument('--folder', default='.')
    parser.add_argument('--rounds', type=int, default=3)
    options = parser.parse_args()
    program = os.path.abspath(options.program)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = pathlib.Path(os.path.abspath(name))
        job, disk = Job(program, folder, options.workers), Disk(folder)
        for _ in range(options.rounds):
            with_saves = job.train('run', EVERY, 3 * EVERY)
            saves = spans(folder / 'run.trace', 'write checkpoint')
            newest = sorted((folder / 'run/checkpoints').glob('step_*'))[-1]
            files = list(newest.glob('*.safetensors'))
            size = sum(path.stat().st_size for path in files)
            without = job.train('without', 0, 2 * EVERY)
            step = statistics.median(without[EVERY:])
            # The first save finds no memory for its copy yet.
            cost = sum(with_saves[EVERY:2 * EVERY]) - EVERY * step, sum(with_saves[2 * EVERY:]) - EVERY * step
            for path in files:
                disk.drop(path)
            job.train('run', EVERY, 3 * EVERY + 1, '--resume', 'auto')
            loads = spans(folder / 'run.trace', 'load or draw the weights')
            write, read = disk.dd(size)
            print(f'{size / 1e9:.2f} GB: saves ' + ', '.join(f'{size / 1e9 / s:.2f}' for s in saves[:3 * options.workers]) +
                  f' GB/s, dd writes {write:.2f}; load {size / 1e9 / max(loads):.2f} GB/s, dd reads {read:.2f}; '
                  f'a step {step:.2f} s, the saves after steps {EVERY} and {2 * EVERY} cost {cost[0]:.2f} and {cost[1]:.2f} s', flush=True)
            shutil.rmtree(folder / 'run')
            shutil.rmtree(folder / 'without')


if __name__ == '__main__':
    main()
