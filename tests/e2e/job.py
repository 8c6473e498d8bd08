"""A small training job for the tests of the built hgtrain, which is the first argument of a test."""
import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
import unittest

from run_folder import RunFolder

PROGRAM = pathlib.Path(sys.argv.pop(1)).resolve()
STEPS = 20
SANITIZED = subprocess.run(['grep', '-q', '-e', '__asan_init', '-e', '__tsan_init', PROGRAM]).returncode == 0

CONFIG = {
    'train_batch_size': 8,
    'train_micro_batch_size_per_gpu': 1,
    'gradient_clipping': 1.0,
    'optimizer': {'type': 'AdamW', 'params': {'lr': 3e-3, 'weight_decay': 0.1}},
    'scheduler': {'type': 'WarmupLR', 'params': {'warmup_num_steps': 5}},
    'model': {'model_type': 'gpt2', 'n_embd': 32, 'n_layer': 2, 'n_head': 2, 'n_positions': 32},
    'training': {'train_iters': STEPS, 'seq_length': 32, 'seed': 7, 'eval_interval': 5, 'eval_iters': 2},
    'data': {'train_data_path': 'data', 'valid_fraction': 0.1},
    'checkpoint': {'save_interval': 5},
    'hardware': {'threads': 1},
}


def text():
    """Some thousand words in a fixed order with a structure to learn."""
    words = 'the quick brown fox jumps over a lazy dog while seven small birds sing in an old tree'.split()
    return '\n'.join(' '.join(words[(i * i + 3 * j) % len(words)] for j in range(12)) for i in range(1500))


class Job:
    """A folder with data and a config; each run gets a run folder in it."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        (self.folder / 'text.txt').write_text(text())
        self.call('data', 'prepare', '--input', 'text.txt', '--out', 'data')
        (self.folder / 'config.json').write_text(json.dumps(CONFIG))

    def start(self, *args, **options):
        return subprocess.Popen([PROGRAM, *map(str, args)], cwd=self.folder, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)

    def call(self, *args, exit_code=0):
        """Runs hgtrain and returns its output. With exit_code=None any exit code is accepted."""
        process = self.start(*args)
        out, err = process.communicate(timeout=600)
        if exit_code not in (None, process.returncode):
            raise AssertionError(f'exit status {process.returncode}, not {exit_code}: {args}\n{out}\n{err}')
        return out + err

    def train(self, run, *args, exit_code=0, workers=2):
        return self.call(*self.arguments(run, workers), *args, exit_code=exit_code)

    def start_training(self, run, *args, workers=2, **options):
        return self.start(*self.arguments(run, workers), *args, **options)

    def arguments(self, run, workers):
        return ('--config', 'config.json', '--run_dir', run, '--device', 'cpu', '--num_workers', workers)

    def metrics(self, run):
        """The complete lines of metrics.jsonl so far."""
        path = self.folder / run / 'metrics.jsonl'
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith('\n')]

    def losses(self, run):
        return [(m['step'], m['loss'], m.get('eval_loss')) for m in self.metrics(run)]

    def read_json(self, folder, name):
        return json.loads((self.folder / folder / name).read_text())

    def verdict(self, run):
        return self.read_json(run, 'run.json')

    def wait_for_step(self, run, step, process):
        """Returns once `step` is in the metrics."""
        wait_for(lambda: any(m['step'] >= step for m in self.metrics(run)), process)

    def taken(self, run, rank):
        """step -> (samples, reduced bytes) from a rank's log."""
        log = (self.folder / run / 'logs' / f'rank_{rank}.log').read_text()
        return {int(s): ([int(x) for x in samples.split(',') if x], int(reduced)) for s, samples, reduced in
                re.findall(r' info: step (\d+) samples \[([\d,]*)\] reduced_bytes (\d+) ', log, re.M)}

    def bad_tensors(self, run, workers):
        """What the log of each rank says of the first bad tensor."""
        logs = [(self.folder / run / f'logs/rank_{rank}.log').read_text() for rank in range(workers)]
        return [re.search('the first tensor that is not finite is .*', log)[0] for log in logs]

    def checkpoints(self, run):
        return sorted(p.name for p in (self.folder / run / 'checkpoints').glob('step_????????'))


def wait_for(condition, process):
    """Waits until the condition holds, while the process runs."""
    deadline = time.monotonic() + 600
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f'it never came: {process.communicate()}')
        time.sleep(0.01)


def read_until(stream, text):
    """Reads lines up to the one that contains `text`."""
    for line in stream:
        if text in line:
            return
    raise AssertionError(f'{text!r} never came')


def workers_of(process):
    """Process ids of the hgtrain-workers of a launcher, in the order of their ranks."""
    children = {}
    for entry in pathlib.Path('/proc').glob('[0-9]*'):
        try:
            parent = int((entry / 'stat').read_text().rsplit(')', 1)[1].split()[1])
            name = (entry / 'cmdline').read_bytes().split(b'\0')[0]
        except OSError:
            continue
        children.setdefault(parent, []).append((int(entry.name), name))
    found, below = [], [process.pid]
    while below:
        for pid, name in children.get(below.pop(), []):
            below.append(pid)
            if name.endswith(b'hgtrain-worker'):
                found.append(pid)
    rank = lambda pid: int(pathlib.Path(f'/proc/{pid}/environ').read_bytes().split(b'\0RANK=')[1].split(b'\0')[0])
    return sorted(found, key=rank)


def stop_computing(pid):
    """Stops a worker's main thread while it computes. Its other threads, such as the one that sends heartbeats, continue."""
    seize, interrupt, resume, futex = 0x4206, 0x4207, 7, '202'
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    if ptrace(seize, pid, None, None) != 0:
        raise unittest.SkipTest(f'ptrace: {os.strerror(ctypes.get_errno())}')
    while True:
        ptrace(interrupt, pid, None, None)
        os.waitpid(pid, 0)
        if pathlib.Path(f'/proc/{pid}/syscall').read_text().split()[0] != futex:
            break
        ptrace(resume, pid, None, None)
        time.sleep(0.003)
    threading.Thread(target=os.waitpid, args=(pid, 0), daemon=True).start()  # once it is killed, its tracer has to know


def wait_until_gone(pids):
    deadline = time.monotonic() + 300
    while any(pathlib.Path(f'/proc/{pid}').exists() for pid in pids):
        if time.monotonic() > deadline:
            raise AssertionError(f'orphans: {pids}')
        time.sleep(0.01)


class JobTest(unittest.TestCase):
    """Tests that share one job; `whole` has the losses of its undisturbed run with two workers."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = RunFolder()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.job = Job(cls.temporary.name)
        cls.job.train('whole')
        cls.whole = cls.job.losses('whole')

    def start_endless(self, run, *args, until_step, **options):
        """Starts a run that trains until it is stopped; returns after some steps."""
        process = self.job.start_training(run, '--steps', 1_000_000, *args, **options)
        self.job.wait_for_step(run, until_step, process)
        return process

    def finish(self, run, *args, workers=2, resumed_on=None):
        """Resumes the run for some more steps. Returns its losses, and those of an undisturbed run of that length."""
        steps = self.job.metrics(run)[-1]['step'] + 10
        self.job.train(run, *args, '--resume', 'auto', '--steps', steps, workers=resumed_on or workers)
        self.job.train(run + '_undisturbed', *args, '--steps', steps, workers=workers)
        return self.job.losses(run), self.job.losses(run + '_undisturbed')

    def numbers(self, run):
        return [(m['step'], m['loss'], m['grad_norm'], m.get('eval_loss')) for m in self.job.metrics(run)]

    def assert_close(self, run, expected):
        """The losses, norms and evaluations of two runs are equal except for rounding."""
        for one, other in zip(self.numbers(run), self.numbers(expected), strict=True):
            for a, b in zip(one, other, strict=True):
                if b is not None:
                    self.assertAlmostEqual(a, b, delta=1e-5 * abs(b), msg=f'{run}, step {one[0]}')

    def assert_layouts_close(self, name, model, layouts):
        """One worker trains the model in the run `name`; layouts, each as flags and a number of workers, give its numbers."""
        self.job.train(name, *model, workers=1)
        for flags, workers in layouts:
            run = f'{name} {workers} {flags}'.replace('/', '')
            self.job.train(run, *model, *flags, workers=workers)
            self.assert_close(run, name)

    def assert_each_resumes_in_the_next(self, model, layouts):
        """A run of each layout (flags and a number of workers) is resumed in the next one, and all end as one worker's."""
        self.job.train('unbroken', *model, workers=1)
        for (flags, workers), (other, other_workers) in zip(layouts, layouts[1:] + layouts[:1], strict=True):
            run = f'from {workers} {flags}'.replace('/', '')
            self.job.train(run, *model, *flags, '--steps', 10, workers=workers)
            self.job.train(run, *model, *other, '--resume', 'auto', workers=other_workers)
            self.assert_close(run, 'unbroken')

    def assert_close_to_whole(self, run):
        losses = self.job.losses(run)
        self.assertEqual(len(losses), STEPS)
        for (step, loss, eval_loss), (_, one, eval_one) in zip(losses, self.whole):
            self.assertAlmostEqual(loss, one, delta=1e-6 * one, msg=f'step {step}')
            if eval_one is not None:
                self.assertAlmostEqual(eval_loss, eval_one, delta=1e-6 * eval_one, msg=f'step {step}')
